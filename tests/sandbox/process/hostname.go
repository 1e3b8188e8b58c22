package process

import (
	"os"
	"os/exec"
	"syscall"
)

// rename sets the host name of the namespace it runs in to its first
// argument, then becomes the program that the others name. (In /proc/sys only
// the machine's root may write, whoever owns the namespace.)
const rename = `/bin/hostname "$0" && exec "$@"`

// renamed is the command of a program that sees a host name of its own, as a
// container does. Not being root, it takes a user namespace to be allowed to.
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

// tryRename asks the kernel, which may forbid namespaces to this user.
func (g *Group) tryRename() bool {
	cmd := renamed(Spec{Hostname: "sandbox", Path: "/bin/true"})
	return g.start(cmd) == nil && cmd.Wait() == nil
}
