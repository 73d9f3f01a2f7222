"""The same objectives behind the call signatures of other libraries; each file imports one of them."""
