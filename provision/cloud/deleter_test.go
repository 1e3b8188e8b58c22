package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// terminating answers TerminateInstances: EC2 accepts all instances of some groups, or none.
type terminating struct {
	refused map[string]string
	ended   []string
}

func (a *terminating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := formOf(w, r)
	if !ok {
		return
	}
	ids := namedIn(form)
	for _, id := range ids {
		if code := a.refused[id]; code != "" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors></Response>`, code, id)
			return
		}
	}
	a.ended = append(a.ended, ids...)
	fmt.Fprint(w, `<TerminateInstancesResponse><instancesSet/></TerminateInstancesResponse>`)
}

// TestEndBesideOneRefused checks that an instance because of which EC2 refuses all does not protect the others.
func TestEndBesideOneRefused(t *testing.T) {
	for code, fails := range map[string]bool{"UnauthorizedOperation": true, "OperationNotPermitted": true, "InvalidInstanceID.NotFound": false} {
		t.Run(code, func(t *testing.T) {
			a := &terminating{refused: map[string]string{"i-2": code}}
			e := &Deleter{connect(t, a, Options{}), func(string) {}}
			var all []Resource
			for _, id := range []string{"i-1", "i-2", "i-3"} {
				all = append(all, Resource{Kind: KindInstance, ID: id, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned", nodePoolTag: "general"}})
			}
			failed := e.Delete(t.Context(), "demo", all)
			if !slices.Equal(a.ended, []string{"i-1", "i-3"}) || (failed["i-2"] != nil) != fails || len(failed) > 1 {
				t.Errorf("ends %v, failed %v", a.ended, failed)
			}
		})
	}
}

// TestRefused checks which refusals of AWS are permanent, and which may succeed in a retry.
func TestRefused(t *testing.T) {
	for err, want := range map[error]bool{
		&DeniedError{}: true, &ClaimError{}: true, &AnswerError{Code: "OperationNotPermitted"}: true,
		&AnswerError{Code: "VolumeInUse"}: false, &ThrottledError{}: false, errors.New("no answer"): false,
	} {
		if Refused(err) != want {
			t.Errorf("Refused(%T %v) = %t", err, err, !want)
		}
	}
}
