package stories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// quietCommand watches that nothing is reported for a time.
func (s *story) quietCommand(_ *testscript.TestScript, args []string) error {
	usage := errors.New("usage: quiet DURATION NODESYNC")
	if len(args) != 2 {
		return usage
	}
	lasting, err := time.ParseDuration(args[0])
	if err != nil {
		return errors.Join(usage, err)
	}
	before, err := s.shownOf(s.ctx, args[1])
	if err != nil {
		return err
	}
	end := time.Now().Add(lasting)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for time.Now().Before(end) {
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-look.C:
		}
		now, err := s.shownOf(s.ctx, args[1])
		if err != nil {
			return err
		}
		for what, is := range now {
			if was, known := before[what]; was != is {
				return fmt.Errorf("after %s at rest %s: %s (before: %q, known %t)", lasting-time.Until(end).Round(time.Second), what, is, was, known)
			}
		}
		if !maps.Equal(before, now) {
			return fmt.Errorf("at rest something is no longer reported: %v, before %v", now, before)
		}
	}
	return nil
}

// shownOf returns the conditions of a NodeSync, and how often each event about it has occurred.
func (s *story) shownOf(ctx context.Context, name string) (map[string]string, error) {
	sync, err := s.get(ctx, "nodesync/"+name)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	conditions, _, err := unstructured.NestedSlice(sync.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	for _, one := range conditions {
		if c, is := one.(map[string]any); is {
			found[fmt.Sprintf("condition %v", c["type"])] = fmt.Sprintf("%v (%v): %v", c["status"], c["reason"], c["message"])
		}
	}
	events, err := s.c.Kube.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return nil, err
	}
	for i := range events.Items {
		e := &events.Items[i]
		found["event "+string(e.UID)] = fmt.Sprintf("%s %s: %s, %d times", e.Type, e.Reason, e.Message, e.Count)
	}
	return found, nil
}
