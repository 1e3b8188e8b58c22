package confine

import "golang.org/x/sys/unix"

// auditArch is the kernel's constant for this architecture.
const auditArch = unix.AUDIT_ARCH_X86_64

// callsOfArch returns the system calls that only this architecture has.
func callsOfArch() []uint32 { return []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL} }
