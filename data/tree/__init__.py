"""Where each session lives: memos, and the tree of folders that is grown from them."""
