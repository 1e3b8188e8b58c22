package release

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatTheServerQuotesOfSecrets: where values are out of Secrets, the server's words are not
// repeated. They quote values, and who can push could have several of his own beside them, and
// see which is hidden.
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
