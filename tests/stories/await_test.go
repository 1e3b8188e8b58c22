package stories_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// get reads an object by KIND/NAME.
func (s *story) get(ctx context.Context, what string) (*unstructured.Unstructured, error) {
	kind, name, _ := strings.Cut(what, "/")
	resource, ok := kinds[kind]
	if !ok || name == "" {
		return nil, fmt.Errorf("want KIND/NAME with a kind that stories know, got %q", what)
	}
	switch kind {
	case "nodesync":
		return s.c.objects.Resource(resource).Namespace(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
	case "deployment":
		if name == "karpenter" {
			return s.c.objects.Resource(resource).Namespace("kube-system").Get(ctx, name, metav1.GetOptions{})
		}
		return s.c.objects.Resource(resource).Namespace("default").Get(ctx, name, metav1.GetOptions{})
	default:
		return s.c.objects.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	}
}

// expectation is what `await` waits for.
type expectation struct {
	condition, status string
	reason            string
	at                string // a commit, or "any"
	message           *regexp.Regexp
}

func (s *story) awaitCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil {
		return err
	}
	if len(args) == 2 && args[0] == "gone" {
		return s.poll(timeout, func(ctx context.Context) error {
			object, err := s.get(ctx, args[1])
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return fmt.Errorf("%s is there: %s", args[1], conditionsOf(object))
		})
	}
	if len(args) == 0 {
		return errors.New("usage: await [-t D] KIND/NAME [CONDITION=STATUS] [reason=R] [at=HEAD] [~ REGEX], or await [-t D] gone KIND/NAME")
	}
	want, err := s.expectation(args[0], args[1:])
	if err != nil {
		return err
	}
	want.message = pattern
	return s.poll(timeout, func(ctx context.Context) error {
		object, err := s.get(ctx, args[0])
		if err != nil {
			return err
		}
		return want.unmet(object)
	})
}

func (s *story) expectation(what string, args []string) (expectation, error) {
	var e expectation
	settings, err := settingsOf(args)
	if err != nil {
		return e, err
	}
	for key, value := range settings {
		switch key {
		case "reason":
			e.reason = value
		case "at":
			e.at = value
		default:
			e.condition, e.status = key, value
		}
	}
	if strings.HasPrefix(what, "nodesync/") && e.at == "" && e.condition == "Ready" && e.status == "True" {
		e.at = "HEAD"
	}
	if e.at == "HEAD" {
		e.at, err = s.repo.Head(s.ctx)
	}
	return e, err
}

// unmet returns what is not as expected; nil if everything is.
func (e expectation) unmet(object *unstructured.Unstructured) error {
	if e.condition == "" {
		return nil
	}
	shown := fmt.Errorf("%s is %s", object.GetName(), conditionsOf(object))
	if observed, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); found && observed != object.GetGeneration() {
		return fmt.Errorf("generation %d is not observed yet: %w", object.GetGeneration(), shown)
	}
	if e.at != "" && e.at != "any" {
		field := "lastAttemptedRevision"
		if e.condition == "Ready" && e.status == "True" {
			field = "lastAppliedRevision"
		}
		revision, _, _ := unstructured.NestedString(object.Object, "status", field)
		if !strings.HasSuffix(revision, e.at) {
			return fmt.Errorf("%s is %q: %w", field, revision, shown)
		}
	}
	c := conditionOf(object, e.condition)
	if c["status"] != e.status || e.reason != "" && c["reason"] != e.reason || e.message != nil && !e.message.MatchString(c["message"]) {
		return shown
	}
	return nil
}

// conditionOf returns the string fields of a condition.
func conditionOf(object *unstructured.Unstructured, kind string) map[string]string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == kind {
			said := map[string]string{}
			for key, value := range fields {
				said[key] = fmt.Sprint(value)
			}
			return said
		}
	}
	return nil
}

// conditionsOf returns all conditions, one per line.
func conditionsOf(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	said := []string{""}
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok {
			said = append(said, fmt.Sprintf("%v=%v %v: %v", fields["type"], fields["status"], fields["reason"], fields["message"]))
		}
	}
	if object.GetDeletionTimestamp() != nil {
		said = append(said, fmt.Sprintf("being deleted, finalizers %q", object.GetFinalizers()))
	}
	return strings.Join(said, "\n\t")
}

func (s *story) removalCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil {
		return err
	}
	if len(args) != 3 {
		return errors.New("usage: removal [-t D] NODESYNC KIND/NAME PHASE|Stalled|any|none [~ REGEX]")
	}
	return s.poll(timeout, func(ctx context.Context) error {
		sync, err := s.get(ctx, "nodesync/"+args[0])
		if err != nil {
			return err
		}
		removals, _, _ := unstructured.NestedSlice(sync.Object, "status", "removals")
		i := slices.IndexFunc(removals, func(r any) bool {
			fields, ok := r.(map[string]any)
			return ok && fmt.Sprintf("%v/%v", fields["kind"], fields["name"]) == args[1]
		})
		if i < 0 {
			if args[2] == "none" {
				return nil
			}
			return fmt.Errorf("there is no removal of %s; %s", args[1], conditionsOf(sync))
		}
		return unmetRemoval(removals[i], args[2], pattern)
	})
}

// releaseCommand is `release NODESYNC KIND/NAME`: it releases a removal that is held because the status was lost.
func (s *story) releaseCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: release NODESYNC KIND/NAME")
	}
	object, err := s.get(s.ctx, args[1])
	if err != nil {
		return err
	}
	return s.must("kubectl", "annotate", "nodesync", args[0], fmt.Sprintf("plumbline.dev/remove=%s", object.GetUID()))
}

func unmetRemoval(removal any, phase string, message *regexp.Regexp) error {
	shown := fmt.Errorf("the removal is %v", removal)
	fields, ok := removal.(map[string]any)
	if !ok || phase == "none" {
		return shown
	}
	_, stalled := fields["stalled"]
	switch phase {
	case "any":
	case "Stalled":
		if !stalled {
			return shown
		}
	default:
		if fields["phase"] != phase {
			return shown
		}
	}
	if message != nil && !message.MatchString(fmt.Sprint(fields["message"])) {
		return shown
	}
	return nil
}
