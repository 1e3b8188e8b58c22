package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// generic sends what Flux's provider generic sends: an event, its metadata without a prefix.
// https://fluxcd.io/flux/components/notification/providers/#generic-webhook
func generic(n Notice) any {
	metadata := map[string]string{"subject": n.Subject}
	for key, value := range map[string]string{eventv1.MetaRevisionKey: n.Revision, "cluster": n.Cluster, "of": n.Of} {
		if value != "" {
			metadata[key] = value
		}
	}
	return eventv1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeSync", Namespace: n.NodeSync.Namespace, Name: n.NodeSync.Name,
		},
		Severity: string(n.Severity), Timestamp: metav1.NewTime(n.At.UTC()), Message: n.Message, Reason: n.Reason,
		Metadata: metadata, ReportingController: "plumbline",
	}
}

// hashed is the HMAC of the body, as that of Flux's provider generic-hmac; none without a key.
// https://fluxcd.io/flux/components/notification/providers/#generic-webhook-with-hmac
func hashed(c credentials, body []byte) (name, value string) {
	if c.Token == "" {
		return "", ""
	}
	mac := hmac.New(sha256.New, []byte(c.Token))
	mac.Write(body)
	return "X-Signature", "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
