package reconcile

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNoSecretIsSaid shows that neither status, events, commit statuses nor logs contain a value of a Secret.
func TestNoSecretIsSaid(t *testing.T) {
	quoted := fmt.Sprintf("Deployment karpenter: spec.x: Invalid value: %q: must be less", marker)
	rejected := &release.RejectedError{Rejections: []string{quoted}}
	for name, say := range map[string]func(p *pass){
		"the API server's words": func(p *pass) { p.Fault = fault.Classify(rejected) },
		"an error that is wrapped": func(p *pass) {
			p.Fault = &fault.Error{Class: fault.Transient, Reason: "Failed", Err: fmt.Errorf("x: %w", rejected)}
		},
		"a source that cannot be fetched": func(p *pass) { p.Unfetched = rejected },
		"charts that cannot be had":       func(p *pass) { p.want.Unpulled = rejected },
		"charts that are not corrected":   func(p *pass) { p.stages.Unkept = rejected },
		"an upgrade that is refused":      func(p *pass) { p.NotUpgraded = rejected },
		"nodes that drift":                func(p *pass) { p.WatchedDrift, p.Drifting = true, quoted },
		"another cluster's name":          func(p *pass) { p.SawAccount, p.Collision = true, quoted },
		"objects that fail":               func(p *pass) { p.Unwritten = errors.Join(errors.New("x"), rejected) },
		"what is waited for":              func(p *pass) { p.Wait("Controller", quoted) },
		"a Stage":                         func(p *pass) { p.want.Set = &render.Set{}; p.stages.Controller = cluster.Readiness{Message: quoted} },
		"an object":                       func(p *pass) { pool(p, quoted) },
		"an event":                        func(p *pass) { p.Warn("ChartRolledBack", quoted) },
		"why it was rolled back": func(p *pass) {
			p.sync.Status.Karpenter.Target = &v1alpha1.ChartTarget{Message: quoted, Since: metav1.NewTime(p.now)}
		},
		"a removal": func(p *pass) {
			p.sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", Message: quoted}}
		},
		"a pool that gets no nodes": func(p *pass) { p.Looked, p.LaunchFailures = true, []rollout.LaunchFailure{{Pool: "a", Why: quoted}} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged), secretWith("s", true, map[string]string{"values.yaml": fmt.Sprintf("a: {b: [%q]}", marker)}))
			var log strings.Builder
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(prefix, args string) { fmt.Fprintln(&log, prefix, args) }, funcr.Options{Verbosity: 10}))
			p := b.installing()
			p.snapshot.Commit = commit
			p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromSecret, "s")}
			if err := p.desiredStep().MergeValues(ctx); err != nil {
				t.Fatal(err)
			}
			say(p)
			if _, err := p.conclude(ctx); err != nil {
				t.Fatal(err)
			}
			said := b.everythingSaid(ctx) + log.String()
			for _, form := range []string{marker, fmt.Sprintf("%q", marker), "hunter2"} {
				if strings.Contains(said, form) {
					t.Errorf("it is said: %s", said)
				}
			}
			if !strings.Contains(said, redact.Mask) {
				t.Errorf("nothing was said at all: %s", said)
			}
		})
	}
}

// TestAGuessIsNotConfirmed shows that an error that is only about a commit is quoted unchanged, whether or not it
// contains a word that a Secret contains, too.
func TestAGuessIsNotConfirmed(t *testing.T) {
	for name, wrong := range map[string]error{
		"a definition": render.Errors{{File: "prod/pool.yaml", Line: 3, Message: "unknown fields hunter1, hunter2, hunter3"}},
		"a request":    &allowance.RefusedError{Refusals: []allowance.Refusal{{What: "repository ./hunter1/hunter2/hunter3", Why: "is none"}}},
		"a class":      &plan.MissingClassError{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Class: render.Ref{Kind: render.EC2NodeClass, Name: "hunter1, hunter2, hunter3"}},
		"several": errors.Join(
			&plan.RefusedError{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Problems: []string{"weight hunter1, hunter2, hunter3"}},
			&apply.InvalidError{Ref: render.Ref{Kind: render.NodePool, Name: "b"}, Problems: []string{"spec.weight: hunter2"}},
		),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged), secretWith("s", true, map[string]string{"values.yaml": "a: {b: hunter2}"}))
			p := b.installing()
			p.snapshot.Commit = commit
			p.want.Karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromSecret, "s")}
			if err := p.desiredStep().MergeValues(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.Fault = fault.Classify(wrong)
			p.Unwritten = errors.Join(errors.New("the value hunter2"))
			if _, err := p.conclude(t.Context()); err != nil {
				t.Fatal(err)
			}
			said := b.everythingSaid(t.Context())
			if !strings.Contains(said, "hunter1, hunter2, hunter3") && !strings.Contains(said, "hunter1/hunter2/hunter3") {
				t.Errorf("the guess is told from the others: %s", said)
			}
			if strings.Contains(said, "the value hunter2") {
				t.Errorf("the Secret is repeated: %s", said)
			}
		})
	}
}

// TestWhatIsSaidIsVisible shows that no name or value of a commit changes how conditions, events and commit statuses
// read.
func TestWhatIsSaidIsVisible(t *testing.T) {
	const trick = "labels.a\u202e\u2066b\u2069\u200b\x1b[2K"
	b := newBed(t, reporting(unchanged))
	p := b.installing()
	p.snapshot.Commit = commit
	p.Fault = fault.Classify(&release.RejectedError{Rejections: []string{trick}})
	p.Warn("ChartRolledBack", trick)
	p.sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", Message: trick}}
	pool(p, trick)
	if _, err := p.conclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := b.everythingSaid(t.Context())
	// JSON escapes the terminal's control characters by itself.
	if strings.ContainsAny(said, "\u202e\u2066\u2069\u200b\x1b") || strings.Contains(said, `\u001b`) || strings.Count(said, `\u202e`) < 3 {
		t.Errorf("said: %q", said)
	}
}

// TestCredentialsAreNotSaid shows that credentials are hidden, whichever step repeats them.
func TestCredentialsAreNotSaid(t *testing.T) {
	b := newBed(t, reporting(func(s *v1alpha1.NodeSync) {
		s.Spec.Source.Git.SecretRef = &v1alpha1.LocalReference{Name: "token"}
	}))
	b.source.files = files(karpenterYAML)
	p := b.begin(b.read())
	p.takes(t.Context(), p.fetch)
	p.Fault = fault.Classify(errors.New("the host says: Basic " + base64.StdEncoding.EncodeToString([]byte("git:s3cret")) + " and s3cret"))
	if _, err := p.conclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := b.everythingSaid(t.Context())
	if strings.Contains(said, "s3cret") || strings.Contains(said, "czNjcmV0") || !strings.Contains(said, redact.Mask) {
		t.Errorf("said: %s", said)
	}
}

// pool adds a definition that is not Ready.
func pool(p *pass, message string) {
	ref := render.Ref{Kind: render.NodePool, Name: "general"}
	p.want.Set = &render.Set{Objects: []render.Object{{Ref: ref}}}
	p.stages.ready = cluster.ByRef{ref: {Message: message}}
}

// everythingSaid returns the NodeSync, the events and what is queued for the Git hosts.
func (b *bed) everythingSaid(ctx context.Context) string {
	b.t.Helper()
	raw, err := json.Marshal(b.read())
	if err != nil {
		b.t.Fatal(err)
	}
	queued := &corev1.ConfigMapList{}
	if err := b.client.List(ctx, queued, client.InNamespace(namespace)); err != nil {
		b.t.Fatal(err)
	}
	said := string(raw) + strings.Join(b.told(), "\n")
	for _, queue := range queued.Items {
		said += fmt.Sprint(queue.Data)
	}
	return said
}
