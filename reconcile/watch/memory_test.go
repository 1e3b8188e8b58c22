package watch_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// TestRecall returns the same value until the NodeSync is recreated or forgotten.
func TestRecall(t *testing.T) {
	name := types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}
	var store watch.Memories[int]
	recalls := func(what string, uid types.UID, want int, wantFresh bool) {
		t.Helper()
		value, fresh := store.Recall(name, uid)
		if *value != want || fresh != wantFresh {
			t.Errorf("%s: %d, fresh %t, want %d, %t", what, *value, fresh, want, wantFresh)
		}
		*value++
	}
	recalls("the first", "a", 0, true)
	recalls("the second", "a", 1, false)
	recalls("created again under its name", "b", 0, true)
	store.Forget(name)
	recalls("forgotten", "b", 0, true)
	if got := store.Len(); got != 1 {
		t.Errorf("%d are kept", got)
	}
}

// TestPush is recorded for a known NodeSync, and forgotten with it.
func TestPush(t *testing.T) {
	name, at := types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}, time.Unix(100, 0)
	var store watch.Memories[int]
	store.Push(name, at)
	if got := store.Pushed(name); !got.IsZero() {
		t.Errorf("of one that no pass was made over: %s", got)
	}
	store.Recall(name, "a")
	store.Push(name, at)
	if got := store.Pushed(name); !got.Equal(at) {
		t.Errorf("pushed at %s, want %s", got, at)
	}
	store.Recall(name, "b")
	if got := store.Pushed(name); !got.IsZero() {
		t.Errorf("of one that was created again: %s", got)
	}
}
