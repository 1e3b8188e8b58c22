package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	config = "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\nversion: 1.15.0\n"
	nodes  = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  role: nodes\n  amiSelectorTerms:\n    - alias: %s # by the train\n" +
		"  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n"
)

// world is AWS, a Git host with one repository, and a cluster that follows it.
type world struct {
	t *testing.T
	// alias is that of the followed branch, and releases are those that AWS publishes; denied is an error of AWS.
	alias    string
	releases []string
	denied   error
	// pulls are all pull requests, and branches the text of the class in each branch. pushErr is an error of a push.
	pulls    []*report.Proposed
	bodies   map[int]string
	branches map[string]string
	messages map[string]string
	pushErr  error
	now      time.Time
	sync     *v1alpha1.NodeSync
	worker   Worker
	// events are those that were recorded.
	events []string
}

func newWorld(t *testing.T, alias string, train v1alpha1.ImageTrain, releases ...string) *world {
	t.Helper()
	train.Propose = true
	w := &world{
		t: t, alias: alias, releases: releases, bodies: map[int]string{}, branches: map[string]string{}, messages: map[string]string{}, now: now,
		sync: &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "fleet", Namespace: "plumbline-system", Generation: 1}},
	}
	w.sync.Spec = v1alpha1.NodeSyncSpec{
		Path: "./", Images: &train,
		Source: v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://git.example.com/acme/fleet.git", Ref: v1alpha1.GitRef{Branch: "main"}}},
		Report: []v1alpha1.Report{{Provider: "gitea", SecretRef: v1alpha1.LocalReference{Name: "report"}}},
	}
	return w
}

func (w *world) image(version string) resolve.Image {
	created, _ := images.Date(version)
	return resolve.Image{
		ID: "ami-" + version, Name: "amazon-eks-node-al2023-x86_64-standard-1.36-" + version, Created: created,
		Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}},
	}
}

func (w *world) Images(_ context.Context, class *awsv1.EC2NodeClass, _ string) ([]resolve.Image, error) {
	_, version, _ := strings.Cut(class.Spec.AMISelectorTerms[0].Alias, "@")
	if version == images.Latest {
		version = w.releases[len(w.releases)-1]
	}
	if w.denied != nil {
		return nil, w.denied
	}
	for _, release := range w.releases {
		if release == version {
			return []resolve.Image{w.image(version)}, nil
		}
	}
	return nil, &resolve.EmptyError{What: "AMI", Field: "amiSelectorTerms", Class: class.Name}
}

func (w *world) Published(context.Context, []string) (found []resolve.Image, err error) {
	for _, release := range w.releases {
		found = append(found, w.image(release))
	}
	return found, w.denied
}

func (w *world) snapshot(text string) *render.Snapshot {
	return &render.Snapshot{FS: fstest.MapFS{"plumbline.yaml": {Data: []byte(config)}, "nodes/a.yaml": {Data: []byte(text)}}}
}

// Change implements Git as source.Git does.
func (w *world) Change(ctx context.Context, c source.Change) (source.Changed, error) {
	if w.pushErr != nil {
		return source.Changed{}, w.pushErr
	}
	before := fmt.Sprintf(nodes, w.alias)
	edited, err := c.Edit(ctx, w.snapshot(before))
	if err != nil {
		return source.Changed{}, err
	}
	text, changes := edited["nodes/a.yaml"]
	if !changes {
		return source.Changed{}, nil
	}
	if was, is := w.messages[c.Branch]; is && was != c.Message {
		earlier, err := c.Earlier(ctx, w.snapshot(before), was)
		if err != nil || string(earlier["nodes/a.yaml"]) != w.branches[c.Branch] {
			return source.Changed{}, &source.BranchError{Branch: c.Branch}
		}
	}
	pushed := w.branches[c.Branch] != string(text)
	w.branches[c.Branch], w.messages[c.Branch] = string(text), c.Message
	return source.Changed{Commit: "c-" + c.Branch, Head: "base", Files: []string{"nodes/a.yaml"}, Pushed: pushed}, nil
}

// CheckBranch: a branch that a person has pushed to has another commit.
func (w *world) CheckBranch(_ context.Context, c source.Change, commit string) error {
	if commit != "c-"+c.Branch {
		return &source.BranchError{Branch: c.Branch}
	}
	return nil
}

func (w *world) DeleteBranch(_ context.Context, c source.Change, commit string) error {
	branch := c.Branch
	if commit != "c-"+branch {
		w.t.Errorf("branch %s with commit %s was deleted", branch, commit)
	}
	delete(w.branches, branch)
	delete(w.messages, branch)
	return nil
}

func (w *world) Amender(_, _ string, secret map[string][]byte) (report.Amender, error) {
	if string(secret["token"]) != "report" {
		return nil, fmt.Errorf("the token is %s", secret["token"])
	}
	return w, nil
}

func (w *world) Proposed(_ context.Context, branch, _ string) (*report.Proposed, error) {
	for i := len(w.pulls) - 1; i >= 0; i-- {
		if w.pulls[i].Branch == branch {
			return w.pulls[i], nil
		}
	}
	return nil, nil
}

func (w *world) Propose(_ context.Context, p report.Proposal) (*report.Proposed, error) {
	number := len(w.pulls) + 1
	made := &report.Proposed{
		Number: number, Branch: p.Branch, Title: p.Title, URL: fmt.Sprintf("https://git.example.com/acme/fleet/pulls/%d", number), State: report.ProposedOpen, Head: "c-" + p.Branch,
	}
	w.pulls, w.bodies[number] = append(w.pulls, made), p.Body
	return made, nil
}

func (w *world) Opened(_ context.Context, _, prefix string) (found []report.Proposed, err error) {
	for _, p := range w.pulls {
		if p.State == report.ProposedOpen && strings.HasPrefix(p.Branch, prefix) {
			found = append(found, *p)
		}
	}
	return found, nil
}

func (w *world) Amend(_ context.Context, number int, a report.Amendment) error {
	p := w.pulls[number-1]
	p.Title = a.Title
	if a.Close {
		p.State = report.ProposedClosed
	}
	return nil
}

// round runs one round, and returns the status.
func (w *world) round() *v1alpha1.ImageTrainStatus {
	w.t.Helper()
	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: w.alias}}},
	}
	look := func() Look {
		return Look{
			Tools: Tools{
				AWS: func(context.Context) (images.PublishedAWS, error) { return w, nil }, Git: func() Git { return w }, Hosts: w,
				Secret: func(_ context.Context, name string) (*corev1.Secret, error) {
					return &corev1.Secret{Data: map[string][]byte{"token": []byte(name)}}, nil
				},
				Grants: grant.Policy{Unannotated: true}, StillLeader: func(context.Context) error { return nil },
			},
			Sync: w.sync, Classes: []*awsv1.EC2NodeClass{class}, Cluster: "demo", Kubernetes: "1.36", Inputs: w.alias, Now: w.now,
		}
	}
	w.now = w.now.Add(every + longest)
	for over := false; ; {
		var found finding.Findings
		answer := w.worker.See(w.t.Context(), look(), &found)
		for _, n := range found.Notes {
			w.events = append(w.events, n.Reason+": "+n.Message)
		}
		if over {
			w.sync.Status.Images = answer.Status
			return answer.Status
		}
		w.worker.mu.Lock()
		over = !w.worker.asking // the next answer is that of this round
		w.worker.mu.Unlock()
	}
}

func (w *world) open() (branches []string) {
	for _, p := range w.pulls {
		if p.State == report.ProposedOpen {
			branches = append(branches, strings.TrimPrefix(p.Branch, "plumbline/images/demo_fleet/demo_fleet/"))
		}
	}
	return branches
}

func (w *world) wants(branches ...string) {
	w.t.Helper()
	if diff := cmp.Diff(branches, w.open()); diff != "" {
		w.t.Fatalf("open pull requests (-want +got):\n%s\nstatus %+v\nevents %v", diff, w.sync.Status.Images, w.events)
	}
}

// TestTrain: a release is proposed once it is old enough, superseded by the next one, and over once it is merged.
func TestTrain(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MinAge: "3d"}, "v20261001", "v20261120")
	status := w.round()
	w.wants("al2023-v20261120")
	if diff := cmp.Diff([]string{"al2023@v20261001 → al2023@v20261120"}, status.Aliases); diff != "" || status.URL != w.pulls[0].URL || status.Commit == "" {
		t.Errorf("status %+v %s", status, diff)
	}
	if text := w.branches[w.pulls[0].Branch]; text != fmt.Sprintf(nodes, "al2023@v20261120") {
		t.Errorf("the branch has %s", text)
	}
	for _, part := range []string{"`al2023@v20261001` (2026-10-01", "`al2023@v20261120`", "2026-11-20, 11 days old", "releases/tag/v20261120", "- `nodes/a.yaml`", "`default`"} {
		if !strings.Contains(w.bodies[1], part) {
			t.Errorf("the body has no %q:\n%s", part, w.bodies[1])
		}
	}
	w.releases = append(w.releases, "v20261130")
	w.round()
	w.wants("al2023-v20261120") // the next one is too young
	w.now = now.Add(3 * 24 * time.Hour)
	w.round()
	w.wants("al2023-v20261130")
	if title := w.pulls[0].Title; title != "Update the AMIs of demo to al2023@v20261120 (closed by plumbline: superseded by al2023@v20261130)" {
		t.Errorf("title %s", title)
	}
	if len(w.branches) != 1 {
		t.Errorf("branches %v", w.branches)
	}
	w.pulls[1].State, w.alias = report.ProposedMerged, "al2023@v20261130"
	if status := w.round(); status.URL != "" || status.Message != "" {
		t.Errorf("status %+v", status)
	}
	w.wants()
}

// TestPullRequestOfAPerson: one whose branch has a person's commit is not closed when another release supersedes it.
func TestPullRequestOfAPerson(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MinAge: "0s"}, "v20261001", "v20261120")
	w.round()
	w.pulls[0].Head = "of-a-person"
	w.releases = append(w.releases, "v20261130")
	status := w.round()
	w.wants("al2023-v20261120")
	if status.URL != w.pulls[0].URL || !strings.Contains(status.Message, "has a commit that is not plumbline's, so it is not closed") {
		t.Errorf("status %+v", status)
	}
}

// TestClosedByAPerson: that release is not proposed again, and the next one is.
func TestClosedByAPerson(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MinAge: "0s"}, "v20261001", "v20261120")
	w.round()
	w.pulls[0].State = report.ProposedClosed
	if status := w.round(); !strings.Contains(status.Message, "was closed, and is not opened again") {
		t.Errorf("status %+v", status)
	}
	w.wants()
	w.releases = append(w.releases, "v20261130")
	w.round()
	w.wants("al2023-v20261130")
}

// TestLatestIsOfferedItsPin once, and follows what it resolves to while it is open.
func TestLatestIsOfferedItsPin(t *testing.T) {
	w := newWorld(t, "al2023@latest", v1alpha1.ImageTrain{}, "v20261120")
	w.round()
	w.wants("pin-al2023")
	w.releases = append(w.releases, "v20261130")
	w.round()
	w.wants("pin-al2023")
	if w.pulls[0].Title != "Pin the AMIs of demo to al2023@v20261130" || w.branches[w.pulls[0].Branch] != fmt.Sprintf(nodes, "al2023@v20261130") {
		t.Errorf("%s: %s", w.pulls[0].Title, w.branches[w.pulls[0].Branch])
	}
	w.pulls[0].State = report.ProposedClosed
	w.releases = append(w.releases, "v20261201")
	w.round()
	w.wants()
}

// TestTroubleLosesNothing: an open pull request stays while AWS does not answer, and each error is reported.
func TestTroubleLosesNothing(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MinAge: "0s"}, "v20261001", "v20261120")
	w.pushErr = &source.PushError{URL: "https://git.example.com/acme/fleet", Branch: "b", Denied: true, Err: errors.New("denied")}
	if status := w.round(); !strings.Contains(status.Message, "the host refuses the credentials") {
		t.Errorf("status %+v", status)
	}
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "ImagesNotProposed: newer AMIs could not be proposed: push branch b") {
		t.Errorf("events %v", w.events)
	}
	w.round()
	if len(w.events) != 1 {
		t.Errorf("the same error was reported twice: %v", w.events)
	}
	w.pushErr = nil
	w.round()
	w.wants("al2023-v20261120")
	w.denied = errors.New("ssm:GetParameter is denied")
	status := w.round()
	w.wants("al2023-v20261120")
	if status.URL == "" || !strings.Contains(status.Message, "ssm:GetParameter is denied") {
		t.Errorf("status %+v", status)
	}
	w.denied = nil
	w.branches[w.pulls[0].Branch], w.messages[w.pulls[0].Branch] = "by a person", "x"
	if status := w.round(); !strings.Contains(status.Message, "has a commit that is not plumbline's") {
		t.Errorf("status %+v", status)
	}
	if w.branches[w.pulls[0].Branch] != "by a person" {
		t.Error("the commit of a person was overwritten")
	}
}

// TestWithdrawnTarget: it is closed, and what AWS still publishes is proposed instead.
func TestWithdrawnTarget(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MinAge: "0s"}, "v20261001", "v20261105", "v20261120")
	w.round()
	w.wants("al2023-v20261120")
	w.releases = w.releases[:2]
	w.round()
	w.wants("al2023-v20261105")
	w.releases = append(w.releases, "v20261120") // published again
	w.round()
	w.wants("al2023-v20261120")
}

// TestGroup: another NodeSync's pull request of the group comes first.
func TestGroup(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MinAge: "0s", Group: "prod"}, "v20261001", "v20261120")
	other, _ := w.Propose(t.Context(), report.Proposal{Branch: "plumbline/images/prod/other_fleet/al2023-v20261120"})
	if status := w.round(); !strings.Contains(status.Message, other.URL+" of the same group is open") {
		t.Errorf("status %+v", status)
	}
	other.State = report.ProposedMerged
	w.round()
	if len(w.pulls) != 2 || w.pulls[1].Branch != "plumbline/images/prod/demo_fleet/al2023-v20261120" {
		t.Errorf("%+v", w.pulls)
	}
}

// TestOnlyMaxAge: nothing is proposed, and what is too old is named.
func TestOnlyMaxAge(t *testing.T) {
	w := newWorld(t, "al2023@v20261001", v1alpha1.ImageTrain{MaxAge: "30d"}, "v20261001", "v20261120")
	w.sync.Spec.Images.Propose = false
	if status := w.round(); status != nil {
		t.Errorf("status %+v", status)
	}
	w.wants()
	answer := w.worker.See(t.Context(), Look{Sync: w.sync, Now: w.now}, &finding.Findings{})
	if len(answer.Outdated) != 1 || !answer.Known {
		t.Errorf("answer %+v", answer)
	}
}
