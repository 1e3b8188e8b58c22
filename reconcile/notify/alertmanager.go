package notify

import (
	"encoding/base64"
	"time"
)

// alertLasts is when an alert ends by itself that nobody has ended: it is sent once, and without an
// end Alertmanager would resolve it after its resolve_timeout, 5 minutes.
const alertLasts = 30 * 24 * time.Hour

// alert is one of postableAlerts:
// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// alertmanager sends a trouble as an alert that fires, and its end as the same one, resolved. An alert
// is known by its labels, so that the reason, which may change meanwhile, is none of them.
func alertmanager(n Notice) any {
	if n.Since.IsZero() {
		return nil
	}
	labels := map[string]string{
		"alertname": "PlumblineNodeSync", "severity": "error", "subject": n.Subject,
		"namespace": n.NodeSync.Namespace, "name": n.NodeSync.Name,
	}
	if n.Cluster != "" {
		labels["cluster"] = n.Cluster
	}
	a := alert{
		Labels:      labels,
		Annotations: map[string]string{"summary": title(n) + ": " + n.Reason, "description": n.Message, "reason": n.Reason, "revision": n.Revision},
		StartsAt:    n.Since.UTC(), EndsAt: n.At.Add(alertLasts).UTC(),
	}
	if n.Of != "" {
		a.EndsAt = n.At.UTC()
	}
	return []alert{a}
}

// authorized is a bearer's token, or a user with a password.
func authorized(c credentials, _ []byte) (name, value string) {
	switch {
	case c.Token != "":
		return "Authorization", "Bearer " + c.Token
	case c.Username != "":
		return "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
	}
	return "", ""
}
