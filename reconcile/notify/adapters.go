package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// adapter defines the requests for one type of receiver. It does no I/O.
type adapter struct {
	// body is sent as JSON; nil if the receiver does not handle the Notice.
	body func(Notice) any
	// sign returns the header that authenticates the sender.
	sign func(credentials, []byte) (name, value string)
}

// adapters maps the types of receivers to their adapters.
func adapters() map[v1alpha1.NotifyType]adapter {
	return map[v1alpha1.NotifyType]adapter{
		v1alpha1.NotifySlack:        {body: slack, sign: unsigned},
		v1alpha1.NotifyTeams:        {body: teams, sign: unsigned},
		v1alpha1.NotifyAlertmanager: {body: alertmanager, sign: authorized},
		v1alpha1.NotifyGeneric:      {body: generic, sign: hashed},
	}
}

// unsigned is for receivers whose address is secret.
func unsigned(credentials, []byte) (name, value string) { return "", "" }

// title names the NodeSync, and the cluster if known.
func title(n Notice) string {
	if n.Cluster == "" {
		return "nodesync/" + n.NodeSync.Name
	}
	return "nodesync/" + n.NodeSync.Name + " on " + n.Cluster
}

// alertLasts is the time after which an unresolved alert ends: it is sent only once, and without an end Alertmanager
// would resolve it after its resolve_timeout, 5 minutes.
const alertLasts = 30 * 24 * time.Hour

// alert is one of postableAlerts:
// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// alertmanager sends a problem as a firing alert, and its end as the same alert, resolved. Alertmanager identifies an
// alert by its labels, so the reason, which may change, is not a label.
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
		Labels: labels,
		Annotations: map[string]string{
			"summary": title(n) + ": " + n.Reason, "description": n.Message, "reason": n.Reason, "revision": n.Revision,
		},
		StartsAt: n.Since.UTC(), EndsAt: n.At.Add(alertLasts).UTC(),
	}
	if n.Of != "" {
		a.EndsAt = n.At.UTC()
	}
	return []alert{a}
}

// authorized authenticates with a bearer token, or with a user and a password.
func authorized(c credentials, _ []byte) (name, value string) {
	switch {
	case c.Token != "":
		return "Authorization", "Bearer " + c.Token
	case c.Username != "":
		return "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
	}
	return "", ""
}

// generic sends the same as Flux's provider generic: an event, with metadata keys without a prefix.
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

// hashed returns the HMAC of the body, like Flux's provider generic-hmac; none without a key.
// https://fluxcd.io/flux/components/notification/providers/#generic-webhook-with-hmac
func hashed(c credentials, body []byte) (name, value string) {
	if c.Token == "" {
		return "", ""
	}
	mac := hmac.New(sha256.New, []byte(c.Token))
	mac.Write(body)
	return "X-Signature", "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// slackMessage is the body for an incoming webhook, with one attachment for the color:
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and
// https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
type slackMessage struct {
	Text string `json:"text"`
	// Mrkdwn is false, so that asterisks and underscores in names are not formatted. Fields of an attachment are only
	// formatted if mrkdwn_in lists them.
	Mrkdwn      bool              `json:"mrkdwn"`
	Attachments []slackAttachment `json:"attachments"`
}

type slackAttachment struct {
	Color    string       `json:"color"`
	Fallback string       `json:"fallback"`
	Text     string       `json:"text"`
	Fields   []slackField `json:"fields,omitempty"`
}

type slackField struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

// slackEscaped escapes the three characters that Slack uses for links and mentions:
// https://docs.slack.dev/messaging/formatting-message-text#escaping
var slackEscaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slack(n Notice) any {
	color := "good"
	if n.Trouble() {
		color = "danger"
	}
	head := slackEscaped.Replace(title(n) + ": " + n.Reason)
	attachment := slackAttachment{Color: color, Fallback: head, Text: slackEscaped.Replace(n.Message)}
	if n.Revision != "" {
		attachment.Fields = []slackField{{Title: "revision", Value: slackEscaped.Replace(n.Revision)}}
	}
	return slackMessage{Text: head, Attachments: []slackAttachment{attachment}}
}

// teamsMessage is an Adaptive Card for a workflow that posts what its webhook receives:
// https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using and
// https://adaptivecards.microsoft.com. Teams shows version 1.4.
type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	Content     teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string         `json:"$schema"`
	Type    string         `json:"type"`
	Version string         `json:"version"`
	Body    []teamsElement `json:"body"`
}

// teamsElement is a RichTextBlock. A TextBlock or a fact would render Markdown, so that a name in a message could
// become a link: https://adaptivecards.microsoft.com/?topic=RichTextBlock and ?topic=TextRun
type teamsElement struct {
	Type    string     `json:"type"`
	Inlines []teamsRun `json:"inlines"`
}

type teamsRun struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Weight string `json:"weight,omitempty"`
	Color  string `json:"color,omitempty"`
	Subtle bool   `json:"isSubtle,omitempty"`
}

func teamsText(run teamsRun) teamsElement {
	run.Type = "TextRun"
	return teamsElement{Type: "RichTextBlock", Inlines: []teamsRun{run}}
}

func teams(n Notice) any {
	color := "good"
	if n.Trouble() {
		color = "attention"
	}
	body := []teamsElement{
		teamsText(teamsRun{Text: title(n) + ": " + n.Reason, Weight: "bolder", Color: color}),
		teamsText(teamsRun{Text: n.Message}),
	}
	if n.Revision != "" {
		body = append(body, teamsText(teamsRun{Text: "revision: " + n.Revision, Subtle: true}))
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{{
		ContentType: "application/vnd.microsoft.card.adaptive",
		Content:     teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Body: body},
	}}}
}
