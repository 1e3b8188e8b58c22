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

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

func TestHide(t *testing.T) {
	pem := "-----BEGIN-----\nMIIBszCCAVmgAwIBAgIU\nc2Vjb25kIGxpbmU\n-----END-----\n"
	for name, c := range map[string]struct {
		secret, message, want string
	}{
		"as it is":           {marker, "it was " + marker + "!", "it was ***!"},
		"quoted":             {marker, fmt.Sprintf("invalid value: %q", marker), `invalid value: "***"`},
		"as JSON":            {marker, `{"value":"hunter2 \"is\" \u003cmarked\u003e"}`, `{"value":"***"}`},
		"in base64":          {marker, "data: " + base64.StdEncoding.EncodeToString([]byte(marker)), "data: ***"},
		"in a URL":           {"p@ss/word", "https://user:p%40ss%2Fword@host", "https://user:***@host"},
		"in one line":        {pem, "ca: " + strings.Join(strings.Fields(pem), " "), "ca: ***"},
		"a line of it":       {pem, "bad line MIIBszCCAVmgAwIBAgIU", "bad line ***"},
		"within a long word": {"0123456789", "x0123456789x", "x***x"},
		"a short word":       {"info", "level info: more information, info", "level ***: more information, ***"},
		"too short":          {"a-b", "a-b", "a-b"},
		"nothing of it":      {marker, "all is well", "all is well"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hidden{}
			h.add([]string{c.secret})
			if got := h.hide(c.message); got != c.want {
				t.Errorf("hide(%q) = %q, want %q", c.message, got, c.want)
			}
		})
	}
}

// TestWhatWasHiddenStaysHidden for the change after: the controller of before may
// still be told of.
func TestWhatWasHiddenStaysHidden(t *testing.T) {
	h := &hidden{}
	for _, secret := range []string{"first-one", "second-one", "second-one"} {
		h.add([]string{secret})
	}
	if got := h.hide("first-one second-one"); got != "*** ***" {
		t.Errorf("the same once more: %q", got)
	}
	h.add([]string{"third-one"})
	if got := h.hide("first-one second-one third-one"); got != "first-one *** ***" {
		t.Errorf("after a change: %q", got)
	}
}

// TestNoSecretIsSaid: whatever quotes a value of a Secret, neither status, events,
// commit statuses nor logs have it.
func TestNoSecretIsSaid(t *testing.T) {
	quoted := fmt.Sprintf("Deployment karpenter: spec.x: Invalid value: %q: must be less", marker)
	rejected := &charts.RejectedError{Rejections: []string{quoted}}
	for name, say := range map[string]func(p *pass){
		"the API server's words": func(p *pass) { p.fault = fault.Classify(rejected) },
		"an error that is wrapped": func(p *pass) {
			p.fault = &fault.Error{Class: fault.Transient, Reason: "Failed", Err: fmt.Errorf("x: %w", rejected)}
		},
		"charts that cannot be had": func(p *pass) { p.unpulled = rejected },
		"objects that fail":         func(p *pass) { p.unwritten = errors.Join(errors.New("x"), rejected) },
		"what is waited for":        func(p *pass) { p.waitFor("Controller", quoted) },
		"a Stage":                   func(p *pass) { p.set = &render.Set{}; p.stages.controller = observe.Readiness{Message: quoted} },
		"an object":                 func(p *pass) { pool(p, quoted) },
		"an event":                  func(p *pass) { p.warn("ChartRolledBack", quoted) },
		"why it was rolled back": func(p *pass) {
			p.sync.Status.Karpenter.Target = &v1alpha1.ChartTarget{Message: quoted, Since: metav1.NewTime(p.now)}
		},
		"a removal": func(p *pass) {
			p.sync.Status.Removals = []v1alpha1.Removal{{Kind: "NodePool", Name: "general", Message: quoted}}
		},
		"a pool that gets no nodes": func(p *pass) { p.looked, p.launchless = true, []launchless{{pool: "a", why: quoted}} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, reporting(unchanged), secretWith("s", true, map[string]string{"values.yaml": fmt.Sprintf("a: {b: [%q]}", marker)}))
			var log strings.Builder
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(prefix, args string) { fmt.Fprintln(&log, prefix, args) }, funcr.Options{Verbosity: 10}))
			p := b.installing()
			p.snapshot.Commit = commit
			p.karpenter.ValuesFrom = []render.ValuesFrom{from(render.FromSecret, "s")}
			if err := p.mergeValues(ctx); err != nil {
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
			if !strings.Contains(said, mask) {
				t.Errorf("nothing was said at all: %s", said)
			}
		})
	}
}

// pool has a definition that is not Ready.
func pool(p *pass, message string) {
	ref := render.Ref{Kind: render.NodePool, Name: "general"}
	p.set = &render.Set{Objects: []render.Object{{Ref: ref}}}
	p.stages.objects = map[render.Ref]observe.Readiness{ref: {Message: message}}
}

// everythingSaid is the NodeSync, the events and what the Git hosts are to be told.
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
