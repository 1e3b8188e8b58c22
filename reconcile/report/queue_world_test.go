package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func encoded(t *testing.T, l Ledger) string {
	t.Helper()
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// errKilled is the error of every request after the process was killed.
var errKilled = errors.New("killed")

// world is a cluster and its Git hosts, in which the process can be killed.
type world struct {
	t      interface{ Fatal(...any) }
	client client.WithWatch
	now    time.Time
	sync   *v1alpha1.NodeSync

	// writes counts writes to ConfigMaps.
	writes int
	// fuse is how many requests the process makes before it is killed; a negative fuse does not burn.
	fuse int
	// write and read, if set, are called before each write and each read of a ConfigMap.
	write, read func() error

	// posted are the statuses that hosts have received, in order.
	posted []Status
	// answer, if set, is the response of a host.
	answer func(host string, s Status) error
	// hang is the URL of a host that never answers.
	hang string
	// tokens are those that hosts received, in order; guarded by mu.
	tokens []string
	mu     sync.Mutex
	// looks counts requested reconciles.
	looks int

	queue     *Queue
	deliverer *Deliverer
}

func newWorld(t interface{ Fatal(...any) }) *world {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, now: noon, fuse: -1}
	w.sync = &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod", UID: "11"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "token", Annotations: map[string]string{v1alpha1.HostsAnnotation: "git.example.com,mirror.example.com"}}, Data: map[string][]byte{"token": []byte("s3cret")}}
	change := func() error {
		if err := w.burn(); err != nil {
			return err
		}
		w.writes++
		if w.write != nil {
			return w.write()
		}
		return nil
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.ConfigMap); ok && w.read != nil {
				if err := w.read(); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := change(); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := change(); err != nil {
				return err
			}
			return c.Update(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := change(); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	w.start()
	return w
}

// burn counts a step of the process.
func (w *world) burn() error {
	if w.fuse == 0 {
		return errKilled
	}
	if w.fuse > 0 {
		w.fuse--
	}
	return nil
}

// start starts the process without any memory.
func (w *world) start() {
	w.fuse = -1
	w.queue = NewQueue(w.client, w.client)
	w.deliverer = &Deliverer{
		Queue: w.queue, Hosts: hosts{w}, Secrets: w.client, Namespace: w.sync.Namespace,
		StillLeader: func(context.Context) error { return nil },
		Trouble:     func(types.NamespacedName) { w.looks++ },
		Now:         func() time.Time { return w.now },
		Jitter:      func() float64 { return 0 },
	}
}

// say reports a verdict as a reconcile does, which then saves its status.
func (w *world) say(s Update) error {
	if s.Hosts == nil {
		s.Hosts = []Target{onGitea}
	}
	s.Context, s.At = "plumbline/prod/x", w.now
	if err := w.queue.Record(context.Background(), w.sync, s); err != nil { //nolint:forbidigo // a test without a T
		return err
	}
	if err := w.burn(); err != nil {
		return err
	}
	if list, known := w.queue.Reported(w.sync); known {
		w.sync.Status.Reported = list
	}
	return nil
}

// deliver posts everything that is due now.
func (w *world) deliver() {
	ctx := context.Background() //nolint:forbidigo // a test without a T
	if err := w.queue.load(ctx, w.sync.Namespace); err != nil {
		w.t.Fatal(err)
	}
	for {
		due, _ := w.deliverer.due()
		if len(due) == 0 {
			return
		}
		slices.SortFunc(due, func(a, b laneOf) int { return slices.Compare([]string{a.lane.url}, []string{b.lane.url}) })
		for _, lane := range due {
			w.deliverer.round(ctx, lane)
			w.deliverer.end(lane)
		}
		if w.fuse == 0 {
			return
		}
	}
}

// stored returns the ledger in the cluster.
func (w *world) stored() (Ledger, bool) {
	s := store{reader: w.client, writer: w.client, owner: ownerOf(w.sync, SubjectWhole)}
	l, found, err := s.load(context.Background()) //nolint:forbidigo // a test without a T
	if err != nil {
		w.t.Fatal(err)
	}
	return l, found
}

// said lists what was posted, starting at an index.
func (w *world) said(from int) []string {
	var list []string
	for _, s := range w.posted[from:] {
		list = append(list, fmt.Sprintf("%s %s %s", s.Commit, s.State, s.Description))
	}
	return list
}

// hosts are the Git hosts of a world.
type hosts struct{ w *world }

func (h hosts) Host(_, repository string, secret map[string][]byte) (Poster, error) {
	if len(secret["token"]) == 0 {
		return nil, &SecretError{Key: "token", Reason: "is missing"}
	}
	h.w.mu.Lock() // lanes call it concurrently
	h.w.tokens = append(h.w.tokens, string(secret["token"]))
	h.w.mu.Unlock()
	return fakePoster{h.w, repository}, nil
}

type fakePoster struct {
	w    *world
	host string
}

func (p fakePoster) Post(ctx context.Context, s Status) error {
	if p.host == p.w.hang {
		<-ctx.Done()
		return &UnavailableError{Err: ctx.Err()}
	}
	if err := p.w.burn(); err != nil {
		return err
	}
	if p.w.answer != nil {
		if err := p.w.answer(p.host, s); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return &UnavailableError{Err: err}
	}
	p.w.posted = append(p.w.posted, s)
	return nil
}
