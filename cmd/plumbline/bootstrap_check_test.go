package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWithoutDefinitions: a repository that has never had definitions is told from one that cannot be read, by the messages of
// its first reconcile.
func TestWithoutDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		applied string
		want    bool
	}{
		"no commit":         {&source.NotFoundError{URL: "https://git/a", What: "commit"}, "", true},
		"no branch":         {&source.NotFoundError{URL: "https://git/a", What: "branch main"}, "", true},
		"no repository":     {&source.NotFoundError{URL: "https://git/a", What: "repository"}, "", false},
		"no folder":         {&render.MissingError{Path: "./clusters/prod", File: "clusters/prod"}, "", true},
		"no definition":     {&render.EmptyError{Path: "./clusters/prod"}, "", true},
		"deleted meanwhile": {&render.MissingError{Path: "./clusters/prod", File: "clusters/prod"}, "main@sha1:1", false},
		"no answer":         {&source.UnreachableError{URL: "https://git/a", Timeout: true}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			sync.Status.LastAppliedRevision = c.applied
			sync.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: c.err.Error()}}
			if got := withoutDefinitions(sync); got != c.want {
				t.Errorf("%v for %q", got, c.err)
			}
		})
	}
}

// TestBootstrapNext: the command that writes the first definitions names what is not its default; with definitions there is
// nothing to write.
func TestBootstrapNext(t *testing.T) {
	spec, err := wished().Draft(bootstrap.Facts{Account: "111122223333", Cluster: cloud.Cluster{Name: "prod", ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/prod"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*bootstrapCommand, *bootstrap.Spec)
		defined bool
		want    []string
		not     string
	}{
		"without a repository": {nil, false, []string{
			"  1. In a clone", "plumbline init --cluster prod --region eu-west-1 --branch karpenter\n", "  3. Connect the repository",
			"plumbline bootstrap --cluster prod --region eu-west-1 --git URL --path ./clusters/prod",
		}, "status"},
		"with one": {func(b *bootstrapCommand, _ *bootstrap.Spec) { b.url, b.path = "https://git/a", "./eu" }, false, []string{
			"plumbline init --cluster prod --region eu-west-1 --path ./eu --branch karpenter\n", "  3. Run this command again",
		}, "Connect"},
		"with other names": {func(b *bootstrapCommand, s *bootstrap.Spec) {
			s.Names = bootstrap.Names{bootstrap.NodeRole: "nodes", bootstrap.Queue: "q"}
			s.Version, s.Auth, b.discoveryTags = "1.14.1", bootstrap.IRSA, true
		}, false, []string{
			"--interruption-queue q --node-role nodes --version 1.14.1 --controller-role arn:aws:iam::111122223333:role/KarpenterControllerRole-prod",
			"{tags: {karpenter.sh/discovery: prod}}", "spec.role nodes",
		}, "status"},
		"with definitions": {nil, true, []string{"plumbline get -n plumbline-system", "plumbline status prod -n plumbline-system", "plumbline tree prod -n plumbline-system"}, "plumbline init"},
	} {
		t.Run(name, func(t *testing.T) {
			of := spec
			b, _, _ := bootstraps(t, &bootstrapAWS{}, nil)
			if c.change != nil {
				c.change(b, &of)
			}
			got := b.nextSteps(of, c.defined)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s\nwant %q in it", got, want)
				}
			}
			if strings.Contains(got, c.not) {
				t.Errorf("got %s\nwith %q in it", got, c.not)
			}
		})
	}
}
