package conn

// sysConnect is connect(2), which Linux has on this processor since 4.3.
// Package syscall uses the older socketcall(2).
const sysConnect = 362
