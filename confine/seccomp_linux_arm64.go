package confine

import "golang.org/x/sys/unix"

// auditArch is what the kernel calls this architecture.
const auditArch = unix.AUDIT_ARCH_AARCH64

// callsOfArch are those that only this architecture has.
func callsOfArch() []uint32 { return nil }
