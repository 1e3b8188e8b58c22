package soak

import (
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
)

func TestPraised(t *testing.T) {
	for name, test := range map[string]struct {
		status githost.Status
		want   bool
	}{
		"failed":                   {githost.Status{State: "failure", Description: "nodes/broken.yaml"}, false},
		"not told of":              {githost.Status{}, false},
		"for a later commit":       {githost.Status{State: "success", Description: superseded + "1234567"}, false},
		"for what it does not say": {githost.Status{State: "success", Description: "applied, Ready"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := praised("1", test.status) != nil; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestStray(t *testing.T) {
	f := fleet{pools: map[string]pool{"a": {}}}
	for name, test := range map[string]struct {
		running map[string]string
		claimed map[string]bool
		want    bool
	}{
		"of a pool, with a NodeClaim": {map[string]string{"i-1": "a"}, map[string]bool{"i-1": true, "i-2": true}, false},
		"of a pool that has left":     {map[string]string{"i-1": "b"}, map[string]bool{"i-1": true}, true},
		"without a NodeClaim":         {map[string]string{"i-1": "a"}, map[string]bool{"i-2": true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stray(test.running, test.claimed, f) != nil; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestPlaced(t *testing.T) {
	f := fleet{pools: map[string]pool{"a": {}}}
	for name, test := range map[string]struct {
		load load
		want bool
	}{
		"in a pool of Git's":     {load{replicas: 1, pool: "a"}, true},
		"anywhere":               {load{replicas: 1}, true},
		"in a pool that is gone": {load{replicas: 1, pool: "b"}, false},
		"without a pod":          {load{pool: "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.load.placed(f); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestLost(t *testing.T) {
	kept := func(pool string) bool { return pool == "kept" }
	for name, test := range map[string]struct {
		before, running map[string]string
		want            bool
	}{
		"all run":                       {map[string]string{"i-1": "kept"}, map[string]string{"i-1": "kept", "i-2": "kept"}, false},
		"one of a changed pool is gone": {map[string]string{"i-1": "changed"}, nil, false},
		"another in its place":          {map[string]string{"i-1": "kept"}, map[string]string{"i-2": "kept"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errors.Is(lost(test.before, test.running, kept), errViolation); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
