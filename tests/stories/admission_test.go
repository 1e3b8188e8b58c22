package stories_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/stories/apiproxy"
)

// hook is an admission webhook that the story runs.
type hook struct{ server *httptest.Server }

// hookName is the name of the webhook and of its configuration.
const hookName = "sizes.example.com"

// admissionCommand is `admission rejects|hangs KIND[/NAME]`, or `admission off`.
func (s *story) admissionCommand(_ *testscript.TestScript, args []string) error {
	if len(args) == 1 && args[0] == "off" {
		return s.endAdmission()
	}
	if len(args) != 2 || args[0] != "rejects" && args[0] != "hangs" {
		return errors.New("usage: admission rejects|hangs KIND[/NAME], or admission off")
	}
	kind, name, _ := strings.Cut(args[1], "/")
	resource, known := kinds[kind]
	if !known {
		return fmt.Errorf("stories know no kind %q", kind)
	}
	if err := s.endAdmission(); err != nil {
		return err
	}
	certificate, err := apiproxy.Certificate(s.c.Sandbox)
	if err != nil {
		return err
	}
	serve := rejecting
	if args[0] == "hangs" {
		serve = hanging
	}
	s.hook = &hook{server: httptest.NewUnstartedServer(http.HandlerFunc(serve))}
	s.hook.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.hook.server.StartTLS()

	fail, none, seconds := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(1)
	registered := admissionregistrationv1.ValidatingWebhook{
		Name:                    hookName,
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &s.hook.server.URL, CABundle: s.c.Kube.CertificateAuthority},
		AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{resource.Group}, APIVersions: []string{"*"}, Resources: []string{resource.Resource}},
		}},
	}
	if name != "" {
		registered.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "name", Expression: fmt.Sprintf("request.name == %q", name)}}
	}
	_, err = s.c.Kube.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(s.ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName}, Webhooks: []admissionregistrationv1.ValidatingWebhook{registered},
	}, metav1.CreateOptions{})
	return err
}

// endAdmission deletes the webhook, if there is one.
func (s *story) endAdmission() error {
	if s.hook == nil {
		return nil
	}
	err := s.c.Kube.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(s.ctx, hookName, metav1.DeleteOptions{})
	if err != nil {
		return err
	}
	s.hook.server.CloseClientConnections()
	s.hook.server.Close()
	s.hook = nil
	return nil
}

// rejecting denies everything except a status.
func rejecting(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "want an AdmissionReview", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "too large for this cluster"}}
	review.Request = nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// hanging responds only after the client has disconnected, which the server notices only once the request is read.
func hanging(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}
