package main

import "syscall"

// dieWithUs has the kernel kill the command when we die: at once, and also where the guard died before us. It does not reach
// what the command starts; the guard does.
func dieWithUs(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGKILL }
