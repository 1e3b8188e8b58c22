package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// peersNamespace is where the peers and their objects are.
const peersNamespace = "peers"

// peersScene is the scene that measures them.
const peersScene = "peers"

// work is what is measured of the peers, too.
type work string

// What a row is the same work as.
const (
	peerFirst   work = "first apply"
	peerOne     work = "1 changed"
	peerAll     work = "all changed"
	peerRemoval work = "removal"
)

// peer is a follower that other people have made.
type peer interface {
	follower
	// start starts it, follow has it take the fleet in the repository.
	start(ctx context.Context) error
	follow(ctx context.Context, commit string) error
	// memory is the resident memory of each of its processes, in bytes.
	memory() ([]int64, error)
	// stop ends it.
	stop()
	// settings say what it ran with.
	settings() string
}

// Peer is what the work of the rows has cost a peer.
type Peer struct {
	Name, Settings string
	Rows           map[work]Row
	// Resident is the memory of each of its processes after the changes, in bytes.
	Resident []int64
	// Skipped says why it was not measured.
	Skipped string
}

// errMissing says that a peer cannot be had on this machine.
var errMissing = errors.New("cannot be had here")

// peers measures each peer, one after another, without the daemon.
func (b *bench) peers(ctx context.Context) error {
	if len(b.options.Peers) == 0 {
		return nil
	}
	if err := b.plumbline.daemon.Stop(); err != nil {
		return err
	}
	for _, name := range b.options.Peers {
		var p peer
		switch name {
		case "flux":
			p = &flux{ground: b.ground}
		case "argo":
			p = &argo{ground: b.ground}
		default:
			return fmt.Errorf("measure the peer %q: it is none of flux and argo", name)
		}
		measured := &Peer{Name: name, Rows: map[work]Row{}}
		err := b.peer(ctx, p, measured)
		p.stop()
		if errors.Is(err, errMissing) {
			measured.Skipped, err = err.Error(), nil
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		measured.Settings = p.settings()
		b.table.Peers = append(b.table.Peers, measured)
		if err := b.clear(ctx); err != nil {
			return err
		}
	}
	return b.plumbline.start(ctx)
}

// peer has one follow the same fleet as plumbline, and pushes the same changes.
func (b *bench) peer(ctx context.Context, p peer, into *Peer) error {
	f := newFleet(folder, "", b.options.Objects)
	commit, err := b.publish(ctx, f)
	if err != nil {
		return err
	}
	if err := errors.Join(b.makePeersNamespace(ctx), p.start(ctx)); err != nil {
		return err
	}
	into.Rows[peerFirst], err = b.measure(ctx, p, func(ctx context.Context) (time.Time, error) {
		return time.Now(), p.follow(ctx, commit)
	}, func(ctx context.Context) error {
		return p.settled(ctx, commit)
	})
	if err != nil {
		return err
	}
	into.Rows[peerOne], err = b.repeat(func(i int) (Row, error) { return b.change(ctx, p, f.changeOne(i*7)) })
	if err != nil {
		return err
	}
	f.changeAll()
	if into.Rows[peerAll], err = b.change(ctx, p, f.all()...); err != nil {
		return err
	}
	n := leaving(b.options.Objects)
	if into.Rows[peerRemoval], err = b.remove(ctx, p, f, n); err != nil {
		return err
	}
	for kind, want := range map[work]int{peerFirst: b.options.Objects, peerOne: 1, peerAll: b.options.Objects, peerRemoval: n} {
		if got := into.Rows[kind].Writes; got < want {
			return fmt.Errorf("%s: %d objects were written, want %d", kind, got, want)
		}
	}
	if into.Resident, err = p.memory(); err != nil {
		return err
	}
	return b.areLeft(ctx, len(f.limits)-n)
}

// makePeersNamespace makes the peers' namespace and the one ServiceAccount of
// theirs, which may do all.
func (b *bench) makePeersNamespace(ctx context.Context) error {
	_, err := b.kube.Client.CoreV1().Namespaces().Get(ctx, peersNamespace, metav1.GetOptions{})
	if err == nil {
		return nil
	}
	meta := metav1.ObjectMeta{Name: peersNamespace}
	if _, err := b.kube.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the peers' namespace: %w", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	if _, err := b.kube.Client.CoreV1().ServiceAccounts(peersNamespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the peers' ServiceAccount: %w", err)
	}
	_, err = b.kube.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: peersNamespace, Name: peersNamespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("let the peers do all: %w", err)
	}
	return nil
}

// peersUser is who the peers are to the API server.
const peersUser = "system:serviceaccount:" + peersNamespace + ":" + peersNamespace

// programsOf are the programs of one peer.
type programsOf []*process.Process

// run starts a program of a peer's, with its own variables beside the usual ones.
func (g *ground) run(ctx context.Context, name, path string, args, env []string) (*process.Process, error) {
	dir := g.path(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", name, err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := g.kube.ServiceAccountKubeconfig(ctx, kubeconfig, peersNamespace, peersNamespace, nil); err != nil {
		return nil, err
	}
	usual := []string{
		"KUBECONFIG=" + kubeconfig, "HOME=" + dir, "TMPDIR=" + dir, "NO_PROXY=127.0.0.1,localhost",
		"PATH=/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM=1",
	}
	return g.programs.Start(process.Spec{Name: name, Path: path, Args: args, Env: append(usual, env...), Dir: dir, Log: filepath.Join(dir, "log")})
}

// cpu is the processor time of all of them.
func (all programsOf) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, p := range all {
		used, err := watched(p.PID()).cpu()
		if err != nil {
			return 0, fmt.Errorf("%w (%w)", err, p.Err())
		}
		sum += used
	}
	return sum, nil
}

func (all programsOf) memory() ([]int64, error) {
	var each []int64
	for _, p := range all {
		resident, _, err := watched(p.PID()).memory()
		if err != nil {
			return nil, err
		}
		each = append(each, resident)
	}
	return each, nil
}

func (all programsOf) stop() {
	for _, p := range slices.Backward(all) {
		p.Stop(0)
	}
}

// moduleFile reads a file of a Go module, which go downloads if need be.
func moduleFile(ctx context.Context, module string, names ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("download %s: %w", module, err)
	}
	var all []byte
	for _, name := range names {
		file, err := os.ReadFile(filepath.Join(found.Dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("read a file of %s: %w", module, err)
		}
		all = append(append(all, file...), "\n---\n"...)
	}
	return all, nil
}
