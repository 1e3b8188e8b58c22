package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const pollEvery = 100 * time.Millisecond

var nodeSyncs = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "nodesyncs"}

// follower prints the changes in the NodeSync's status, once each.
type follower struct{ *scene }

// follow prints what happens until the NodeSync is Ready at the newest commit and no removal is open.
func (s *scene) follow(ctx context.Context) error {
	f := follower{s}
	head := s.commits[len(s.commits)-1].hash
	err := s.until(ctx, func(ctx context.Context) error {
		sync, err := s.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return f.look(sync, head)
	})
	if err != nil {
		return fmt.Errorf("follow NodeSync %s: %w", name, err)
	}
	return nil
}

// until calls look repeatedly until it returns nil.
func (s *scene) until(ctx context.Context, look func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		if last = look(ctx); last == nil {
			return true, nil
		}
		return false, s.daemon.Err()
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("not done after %s: %w", patience, last)
	}
	return err
}

// look prints what is new; nil means that everything is done.
func (f follower) look(sync *unstructured.Unstructured, head string) error {
	attempted, _, _ := unstructured.NestedString(sync.Object, "status", "lastAttemptedRevision")
	if !strings.HasSuffix(attempted, head) {
		return errors.New("the commit is not fetched yet")
	}
	f.once("fetched", head, "fetched %s", attempted[:len(attempted)-len(head)+8])
	f.stages(sync)
	f.removals(sync)
	applied, _, _ := unstructured.NestedString(sync.Object, "status", "lastAppliedRevision")
	status, message := ready(sync)
	if status == "False" {
		f.once("ready", message, "not Ready: %s", message)
	}
	if status != "True" || !strings.HasSuffix(applied, head) {
		return fmt.Errorf("it is not Ready: %s", message)
	}
	f.done("Ready: %s", message)
	return nil
}

// once prints something as done if it is new.
func (f follower) once(key, value, format string, args ...any) {
	if f.said[key] != value {
		f.said[key] = value
		f.done(format, args...)
	}
}

func (f follower) stages(sync *unstructured.Unstructured) {
	for _, stage := range items(sync, "stages") {
		key := "stage " + text(stage, "name")
		if text(stage, "state") == "Done" {
			f.once(key, "Done", "%-11s done", text(stage, "name"))
		}
	}
}

func (f follower) removals(sync *unstructured.Unstructured) {
	open := items(sync, "removals")
	for _, removal := range open {
		who := text(removal, "kind") + "/" + text(removal, "name")
		phase, message := text(removal, "phase"), text(removal, "message")
		if f.said[who] == phase {
			continue
		}
		f.said[who] = phase
		if message != "" {
			message = ": " + message
		}
		f.going("removal of %s (%s)%s", who, phase, message)
	}
	for who, phase := range f.said {
		gone := !slices.ContainsFunc(open, func(r map[string]any) bool { return text(r, "kind")+"/"+text(r, "name") == who })
		if strings.Contains(who, "/") && gone && phase != "Gone" {
			f.said[who] = "Gone"
			f.done("%s is removed: its nodes were drained, and EC2 confirms that their instances are terminated", who)
		}
	}
}

func ready(sync *unstructured.Unstructured) (status, message string) {
	for _, condition := range items(sync, "conditions") {
		if text(condition, "type") == "Ready" {
			return text(condition, "status"), text(condition, "message")
		}
	}
	return "", "it has no condition yet"
}

// items returns a list of objects in the status.
func items(object *unstructured.Unstructured, field string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", field)
	var all []map[string]any
	for _, item := range list {
		if fields, ok := item.(map[string]any); ok {
			all = append(all, fields)
		}
	}
	return all
}

func text(fields map[string]any, name string) string {
	value, _ := fields[name].(string)
	return value
}
