package process

import (
	"os"
	"os/exec"
	"syscall"
)

// rename sets the host name of its namespace to its first argument, then executes the program in the others. (Only the
// machine's root may write to /proc/sys, whoever owns the namespace.)
const rename = `/bin/hostname "$0" && exec "$@"`

// renamed returns the command of a program that sees its own host name, as in a container. Without root, that requires
// a user namespace.
func renamed(spec Spec) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{"-c", rename, spec.Hostname, spec.Path}, spec.Args...)...)
	cmd.SysProcAttr = attributes()
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUTS
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// tryRename tries it, because the kernel may forbid namespaces to this user.
func (g *Group) tryRename() bool {
	cmd := renamed(Spec{Hostname: "sandbox", Path: "/bin/true"})
	return g.start(cmd) == nil && cmd.Wait() == nil
}
