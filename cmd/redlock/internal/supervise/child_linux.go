package supervise

import "syscall"

// dieWithUs has the kernel kill the command when the wrapper dies, even if the
// guard died first. Only the guard kills what the command started.
func dieWithUs(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGKILL }
