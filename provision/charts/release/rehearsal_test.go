package release

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// TestWhatTheServerQuotesOfSecrets: if values come from Secrets, the server's message is not repeated. It quotes
// values; a committer could add some of their own, and see which one is hidden.
func TestWhatTheServerQuotesOfSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		status *metav1.Status
		want   string
	}{
		"invalid":   {&metav1.Status{Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.template.spec.schedulerName", Message: "Invalid value: \"hunter2\": must be a name"}, {Type: metav1.CauseTypeFieldValueNotSupported, Field: "spec.strategy.type", Message: "Unsupported value: \"hunter2\""}}}}, "Deployment kube-system/karpenter: spec.template.spec.schedulerName (FieldValueInvalid), spec.strategy.type (FieldValueNotSupported)"},
		"malformed": {&metav1.Status{Reason: metav1.StatusReasonBadRequest, Code: http.StatusBadRequest}, "Deployment kube-system/karpenter: it is not accepted (BadRequest)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.want.Sealed = "secret values"
			b.api.refuseWith(func(_, path string, dryRun bool) *metav1.Status {
				if !dryRun || !strings.Contains(path, "deployments") {
					return nil
				}
				status := refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "Invalid value: \"hunter2\"")
				if c.status.Code != 0 {
					status.Code, status.Reason = c.status.Code, c.status.Reason
				}
				status.Details = c.status.Details
				return status
			})
			_, err := b.controller()
			var rejected *RejectedError
			if !errors.As(err, &rejected) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), c.want+"; its words are not repeated, as values are out of Secrets") {
				t.Errorf("EnsureController() = %v, want %q", err, c.want)
			}
		})
	}
}

// TestAChartWithAHook: a chart with a hook is refused in every operation, and an installed one is reinstalled without
// it.
func TestAChartWithAHook(t *testing.T) {
	const hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-upgrade}\n"
	for way, render := range everyRender() {
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			b.withTemplate(hook)
			var refused *charts.HookError
			if err := render(b); !errors.As(err, &refused) || refused.File != "karpenter/templates/more.yaml" {
				t.Errorf("a hook: %v", err)
			}
		})
	}
}

// TestWhatIsNotPermittedIsNotWritten: Permit is called for the objects of both charts before anything is written or
// rehearsed.
func TestWhatIsNotPermittedIsNotWritten(t *testing.T) {
	refusal := errors.New("not permitted")
	for way, render := range everyRender() {
		if way == "offline" {
			continue // it writes nothing, and does not call Permit
		}
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			asked, calls := map[string][]string{}, 0
			b.want.Permit = func(r Rendered) error {
				for _, object := range r.Objects {
					asked[r.Chart] = append(asked[r.Chart], object.GetKind())
				}
				if r.Chart == charts.ControllerChart {
					calls++
				}
				if r.Chart == charts.CRDChart || way == "upgrade" && calls == 1 {
					return nil
				}
				if r.Version != "1.14.1" || r.Namespace != "kube-system" {
					t.Errorf("asked about %s %s in %s", r.Chart, r.Version, r.Namespace)
				}
				return refusal
			}
			b.withTemplate("# nothing\n")
			if err := render(b); !errors.Is(err, refusal) {
				t.Fatalf("%s: %v", way, err)
			}
			if !slices.Contains(asked[charts.ControllerChart], "Deployment") {
				t.Errorf("asked about %v", asked)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("written: %v", writes)
			}
		})
	}
}

// TestWhatWasThereIsAskedAbout: a rollback and a repair reinstall an earlier revision only if that is still permitted.
func TestWhatWasThereIsAskedAbout(t *testing.T) {
	refusal := errors.New("not permitted any more")
	for way, bring := range map[string]func(*bed) (Result, error){
		"rollback": func(b *bed) (Result, error) { return b.installer.RollBack(b.Context(), b.want, 1) },
		"repair": func(b *bed) (Result, error) {
			b.api.mu.Lock()
			delete(b.api.objects, deploymentPath)
			b.api.mu.Unlock()
			return b.controller()
		},
	} {
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			b.both()
			b.want.Values = map[string]any{"replicas": 7}
			if result, err := b.controller(); err != nil || result.Revision != 2 {
				t.Fatalf("upgrade: %+v, %v", result, err)
			}
			b.api.takeWrites()
			asked := 0
			b.want.Permit = func(r Rendered) error {
				if asked++; len(r.Objects) != 1 || r.Objects[0].GetKind() != "Deployment" {
					t.Errorf("asked about %v", r.Objects)
				}
				if whole := b.charts.Digest; r.Version != "1.14.1" || len(r.Digest) != len("sha256:")+32 || !strings.HasPrefix(whole, r.Digest) {
					t.Errorf("asked about %s %s, of %s", r.Version, r.Digest, whole)
				}
				return refusal
			}
			if _, err := bring(b); !errors.Is(err, refusal) || asked == 0 {
				t.Errorf("%v, asked %d times", err, asked)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("written: %v", writes)
			}
			b.want.Permit = func(Rendered) error { return nil }
			if result, err := bring(b); err != nil || result.Revision != 3 {
				t.Errorf("once it is permitted: %+v, %v", result, err)
			}
		})
	}
}

// TestWhatHelmReadsIsAskedAbout: a manifest is text, and Permit gets what Helm parses from it, whatever the original
// documents were.
func TestWhatHelmReadsIsAskedAbout(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: smuggled, namespace: kube-system}\n"
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: karpenter, namespace: kube-system}\n"
	for name, tc := range map[string]struct {
		documents charts.Documents
		want      []string
	}{
		"as it is":               {charts.Documents{{Source: "a.yaml", Text: deployment}}, []string{"Deployment karpenter"}},
		"in the name of a file":  {charts.Documents{{Source: "a\n---\n" + secret + "---\n#.yaml", Text: deployment}}, []string{"Secret smuggled", "Deployment karpenter"}},
		"fields in such a name":  {charts.Documents{{Source: "a.yaml\nmetadata: {name: first}", Text: "apiVersion: v1\nkind: Secret"}}, []string{"Secret first"}},
		"after a separator":      {charts.Documents{{Source: "a.yaml", Text: deployment + "---\n" + secret}}, []string{"Deployment karpenter", "Secret smuggled"}},
		"after one with words":   {charts.Documents{{Source: "a.yaml", Text: deployment + "--- # more\n" + secret}}, []string{"Deployment karpenter", "Secret smuggled"}},
		"in a list":              {charts.Documents{{Source: "a.yaml", Text: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: smuggled, namespace: kube-system}}\n"}}, []string{"Secret smuggled"}},
		"a separator in a text":  {charts.Documents{{Source: "a.yaml", Text: deployment + "data: |\n  a\n  ---\n  b\n"}}, []string{"Deployment karpenter"}},
		"a key that comes twice": {charts.Documents{{Source: "a.yaml", Text: deployment + "metadata: {name: smuggled}\n"}}, []string{"Deployment smuggled"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			helm, err := newHelm(b.installer.config, "kube-system", b.installer.options.Logger)
			if err != nil {
				t.Fatal(err)
			}
			refusal, asked := errors.New("not permitted"), []string(nil)
			after := &rehearsal{kube: helm.kube, task: task{namespace: "kube-system", permit: func(r Rendered) error {
				for _, object := range r.Objects {
					asked = append(asked, object.GetKind()+" "+object.GetName())
				}
				return refusal
			}}}
			if _, err := after.Run(bytes.NewBufferString(tc.documents.Manifest())); !errors.Is(err, refusal) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, asked); diff != "" {
				t.Errorf("asked about (-want +got):\n%s", diff)
			}
		})
	}
}
