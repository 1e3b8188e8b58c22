package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// peersNamespace is where the peers and their objects are.
const peersNamespace = "peers"

// peersScene is the scene that measures them, with plumbline first.
const peersScene = "peers"

// work is what each of them has to do.
type work string

const (
	firstApply   work = "first apply"
	oneChanged   work = "1 changed"
	allChanged   work = "all changed"
	poolsRemoved work = "pools removed"
)

// tool is a follower that can be set beside others.
type tool interface {
	follower
	// start starts it, follow has it take the fleet in the repository.
	start(ctx context.Context) error
	follow(ctx context.Context, commit string) error
	// end ends it. What it has applied stays.
	end(ctx context.Context) error
	// settings say what it ran with.
	settings() string
	// memory is the resident memory of each of its processes, in bytes.
	memory() ([]int64, error)
}

// Peer is what the works have cost a tool.
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

// peers has plumbline and then each peer follow the same fleet and the same
// changes of it, one after another, each alone.
func (b *bench) peers(ctx context.Context) error {
	if len(b.options.Peers) == 0 {
		return nil
	}
	for _, name := range append([]string{ownName}, b.options.Peers...) {
		b.line.Say(name)
		if err := b.peer(ctx, name); err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
	}
	return b.plumbline.start(ctx)
}

func (b *bench) tool(name string) tool {
	switch name {
	case "flux":
		return &flux{ground: b.ground}
	case "argo":
		return &argo{ground: b.ground}
	default:
		return self{b.plumbline}
	}
}

func (b *bench) peer(ctx context.Context, name string) error {
	t, measured := b.tool(name), &Peer{Name: name, Rows: map[work]Row{}}
	b.table.Peers = append(b.table.Peers, measured)
	err := b.follow(ctx, t, measured)
	if errors.Is(err, errMissing) {
		measured.Skipped, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	measured.Settings = t.settings()
	if err := t.end(ctx); err != nil {
		return err
	}
	return b.clear(ctx)
}

// follow has a tool follow a fleet, and pushes changes of it.
func (b *bench) follow(ctx context.Context, t tool, into *Peer) error {
	f := newFleet(folder, "", b.options.Objects)
	commit, err := b.publish(ctx, f)
	if err != nil {
		return err
	}
	if err := errors.Join(b.makePeersNamespace(ctx), t.start(ctx)); err != nil {
		return err
	}
	into.Rows[firstApply], err = b.measure(ctx, t, func(ctx context.Context) (time.Time, error) {
		return time.Now(), t.follow(ctx, commit)
	}, func(ctx context.Context) error {
		return t.settled(ctx, commit)
	})
	if err != nil {
		return err
	}
	into.Rows[oneChanged], err = b.repeat(func(i int) (Row, error) { return b.change(ctx, t, f.changeOne(i*7)) })
	if err != nil {
		return err
	}
	f.changeAll()
	if into.Rows[allChanged], err = b.change(ctx, t, f.all()...); err != nil {
		return err
	}
	n := leaving(b.options.Objects)
	if into.Rows[poolsRemoved], err = b.remove(ctx, t, f, n); err != nil {
		return err
	}
	for of, want := range map[work]int{firstApply: b.options.Objects, oneChanged: 1, allChanged: b.options.Objects, poolsRemoved: n} {
		if got := into.Rows[of].Writes; got < want {
			return fmt.Errorf("%s: %d objects were written, want %d", of, got, want)
		}
	}
	if into.Resident, err = t.memory(); err != nil {
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
