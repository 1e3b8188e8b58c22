package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// readyWithin limits the time until a replica's probes succeed.
const readyWithin = 30 * time.Second

// StartDeployed starts the replica with a number, from 0, according to the Deployment in manifests/, and waits until
// its probes succeed. It uses the Deployment's arguments and variables, its user, a root with nothing but the program,
// read-only except for the mounted volumes, with the files of its ServiceAccount, and AWS credentials by EKS Pod
// Identity. It requires root.
func (d *Daemon) StartDeployed(ctx context.Context, replica int) error {
	if d.Running() {
		return errors.New("the daemon runs already")
	}
	wanted, err := deployment(ctx, d.options.Kube, d.options.Root)
	if err != nil {
		return err
	}
	if wanted.Spec.Replicas == nil || int(*wanted.Spec.Replicas) <= replica {
		return fmt.Errorf("the Deployment has %v replicas, and number %d is asked for", wanted.Spec.Replicas, replica)
	}
	api, err := url.Parse(d.options.Kube.Endpoint)
	if err != nil {
		return fmt.Errorf("read the API server's address: %w", err)
	}
	node, err := nodeFor(ctx, d.options.Kube, replica)
	if err != nil {
		return err
	}
	at := place{
		name: fmt.Sprintf("%s-%d", wanted.Name, replica), ip: loopback(), node: node,
		api: [2]string{api.Hostname(), api.Port()}, aws: d.options.AWS,
	}
	p, err := podOf(wanted, at)
	if err != nil {
		return err
	}
	j, err := d.furnish(ctx, p, wanted.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	command, err := j.command(p)
	if err != nil {
		return err
	}
	d.running, err = d.programs.Start(process.Spec{
		Name: "plumbline", Path: command[0], Args: command[1:], Env: p.env, Dir: d.options.Dir, Log: d.LogFile(), Hostname: at.name,
	})
	if err != nil {
		return err
	}
	container := wanted.Spec.Template.Spec.Containers[0]
	liveness, err := probe(container, container.LivenessProbe, at.ip)
	if err != nil {
		return err
	}
	readiness, err := probe(container, container.ReadinessProbe, at.ip)
	if err != nil {
		return err
	}
	return errors.Join(d.answers(ctx, liveness), d.answers(ctx, readiness))
}

// loopback returns an address of this machine that nothing else is likely to listen on.
func loopback() string {
	return fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
}

// answers waits until a probe of the running process succeeds.
func (d *Daemon) answers(ctx context.Context, probe string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, readyWithin, true, func(ctx context.Context) (bool, error) {
		if !d.Running() {
			return false, d.Err()
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			last = err
			return false, nil
		}
		defer func() { _ = answer.Body.Close() }()
		body, _ := io.ReadAll(answer.Body)
		last = fmt.Errorf("status %d: %s", answer.StatusCode, body)
		return answer.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w (%w)", probe, err, last)
	}
	return nil
}

// jail is the root of one replica, with its mounts.
type jail struct {
	root   string
	mounts [][2]string // from, to
}

// furnish prepares the root as the image and a kubelet do.
func (d *Daemon) furnish(ctx context.Context, p pod, account string) (jail, error) {
	j := jail{root: filepath.Join(d.options.Dir, "root")}
	volumes := filepath.Join(d.options.Dir, "volumes")
	for _, dir := range []string{"etc", "dev", "proc", "home/nonroot", accountMount, identityMount} {
		if err := os.MkdirAll(filepath.Join(j.root, dir), 0o755); err != nil {
			return j, fmt.Errorf("make the root of a pod: %w", err)
		}
	}
	if err := d.opened(j.root); err != nil {
		return j, err
	}
	program, err := os.ReadFile(Binary(d.options.Root))
	if err != nil {
		return j, fmt.Errorf("find the program (make build): %w", err)
	}
	if err := os.WriteFile(filepath.Join(j.root, "plumbline"), program, 0o755); err != nil {
		return j, err
	}
	passwd := fmt.Sprintf("nonroot:x:%d:%d:nonroot:/home/nonroot:/sbin/nologin\n", p.user, p.group)
	if err := os.WriteFile(filepath.Join(j.root, "etc/passwd"), []byte(passwd), 0o644); err != nil {
		return j, err
	}
	for i, path := range p.scratch {
		from := filepath.Join(volumes, fmt.Sprint(i))
		if err := p.scratchDir(from); err != nil {
			return j, err
		}
		if err := os.MkdirAll(filepath.Join(j.root, path), 0o755); err != nil {
			return j, err
		}
		j.mounts = append(j.mounts, [2]string{from, filepath.Join(j.root, path)})
	}
	return j, d.writeTokens(ctx, j, p, account)
}

// opened gives any user access to the folders above a path, which are private in tests.
func (d *Daemon) opened(path string) error {
	for ; path != "/" && path != os.TempDir(); path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := os.Chmod(path, info.Mode().Perm()|0o011); err != nil {
			return fmt.Errorf("open the root of a pod to its user: %w", err)
		}
	}
	return nil
}

// scratchDir creates an emptyDir as a kubelet does: writable for all, and with the pod's group.
func (p pod) scratchDir(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if p.fsGroup != nil {
		if err := os.Chown(dir, 0, int(*p.fsGroup)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o777|os.ModeSetgid)
}

// writeTokens writes the files of a pod's ServiceAccount. As with a kubelet, they belong to the pod's group if it has
// one.
func (d *Daemon) writeTokens(ctx context.Context, j jail, p pod, account string) error {
	own, err := d.options.Kube.Token(ctx, Namespace, account, nil)
	if err != nil {
		return err
	}
	identity, err := d.options.Kube.Token(ctx, Namespace, account, nil, awssim.PodIdentityAudience)
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		filepath.Join(accountMount, "token"):        own,
		filepath.Join(accountMount, "ca.crt"):       string(d.options.Kube.CertificateAuthority),
		filepath.Join(accountMount, "namespace"):    Namespace,
		filepath.Join(identityMount, identityToken): identity,
	} {
		path = filepath.Join(j.root, path)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
		user, group, mode := int(p.user), int(p.group), os.FileMode(0o600)
		if p.fsGroup != nil {
			user, group, mode = 0, int(*p.fsGroup), 0o640
		}
		if err := errors.Join(os.Chown(path, user, group), os.Chmod(path, mode)); err != nil {
			return fmt.Errorf("hand a token to the pod: %w", err)
		}
	}
	return nil
}

// command returns the command that runs the program in its root: in its own mount namespace, so that the mounts are
// invisible outside, and gone when it exits.
func (j jail) command(p pod) ([]string, error) {
	tools := map[string]string{}
	for _, name := range []string{"unshare", "mount", "chroot"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("find what runs a program in a root of its own: %w", err)
		}
		tools[name] = path
	}
	mount := quoted(tools["mount"])
	script := []string{mount + " --bind " + quoted(j.root) + " " + quoted(j.root)}
	for _, device := range []string{"/dev", "/proc"} {
		script = append(script, mount+" --rbind "+device+" "+quoted(j.root+device))
	}
	for _, m := range j.mounts {
		script = append(script, mount+" --bind "+quoted(m[0])+" "+quoted(m[1]))
	}
	if p.readOnly {
		script = append(script, mount+" -o remount,bind,ro "+quoted(j.root))
	}
	groups := fmt.Sprint(p.group)
	if p.fsGroup != nil {
		groups += fmt.Sprintf(",%d", *p.fsGroup)
	}
	run := []string{"exec", quoted(tools["chroot"]), fmt.Sprintf("--userspec=%d:%d", p.user, p.group), "--groups=" + groups, quoted(j.root), "/plumbline"}
	for _, arg := range p.args {
		run = append(run, quoted(arg))
	}
	script = append(script, strings.Join(run, " "))
	return []string{tools["unshare"], "--mount", "--propagation", "private", "--", "/bin/sh", "-ec", strings.Join(script, "\n")}, nil
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
