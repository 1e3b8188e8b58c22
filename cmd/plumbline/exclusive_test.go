package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/plumbline-dev/plumbline/internal/pause"
)

// TestExclusively: of two users one waits until the other is done, and says for whom; Ctrl-C ends the wait.
func TestExclusively(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := fake.NewClientset().CoordinationV1()
		lease := func(who string) resourcelock.Interface {
			return &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}, Client: leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: who},
			}
		}
		var log sync.Mutex
		var said []string
		say := func(who string) func(string) {
			return func(what string) {
				log.Lock()
				defer log.Unlock()
				said = append(said, who+": "+what)
			}
		}
		failed := errors.New("failed")
		work := func(who string, result error) func(context.Context) error {
			return func(ctx context.Context) error {
				say(who)("begins")
				defer say(who)("ends")
				if err := pause.For(ctx, time.Minute); err != nil {
					return err
				}
				return result
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := exclusively(t.Context(), lease("ann"), say("ann"), work("ann", failed)); !errors.Is(err, failed) {
				t.Errorf("ann: %v", err)
			}
		})
		if err := pause.For(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := exclusively(t.Context(), lease("bob"), say("bob"), work("bob", nil)); err != nil {
				t.Errorf("bob: %v", err)
			}
		})
		impatient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := exclusively(impatient, lease("eve"), say("eve"), work("eve", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("eve: %v", err)
		}
		all.Wait()
		got := strings.Join(said, "\n")
		for _, want := range []string{
			"bob: waiting for ann, who runs the same command for this cluster", "eve: waiting for ann", "ann: ends\nbob: begins\nbob: ends",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in:\n%s", want, got)
			}
		}
		if strings.Contains(got, "eve: begins") {
			t.Error("eve began")
		}
	})
}
