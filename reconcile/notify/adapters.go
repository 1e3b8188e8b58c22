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

// adapter is what one type of receiver wants sent. It has no I/O.
type adapter struct {
	// body is sent as JSON; nil if the receiver has no use for the Notice.
	body func(Notice) any
	// sign puts what proves the sender into the header.
	sign func(credentials, []byte) (name, value string)
}

// adapters are the types of receivers.
func adapters() map[v1alpha1.NotifyType]adapter {
	return map[v1alpha1.NotifyType]adapter{
		v1alpha1.NotifySlack:        {body: slack, sign: unsigned},
		v1alpha1.NotifyTeams:        {body: teams, sign: unsigned},
		v1alpha1.NotifyAlertmanager: {body: alertmanager, sign: authorized},
		v1alpha1.NotifyGeneric:      {body: generic, sign: hashed},
	}
}

// unsigned is for receivers whose address is the secret.
func unsigned(credentials, []byte) (name, value string) { return "", "" }

// title names the NodeSync, and the cluster where it is known.
func title(n Notice) string {
	if n.Cluster == "" {
		return "nodesync/" + n.NodeSync.Name
	}
	return "nodesync/" + n.NodeSync.Name + " on " + n.Cluster
}

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

// slackMessage is that of an incoming webhook, with one attachment for the color:
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and
// https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
type slackMessage struct {
	Text string `json:"text"`
	// Mrkdwn is false: a name with an asterisk or an underscore is no emphasis. Fields of an attachment
	// are marked up only where mrkdwn_in names them.
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

// slackEscaped are the three characters by which Slack knows links and mentions:
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

// teamsMessage is an Adaptive Card, as a workflow takes it that posts what its webhook gets:
// https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
// and https://adaptivecards.microsoft.com. Teams shows version 1.4.
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

// teamsElement is a RichTextBlock. A TextBlock, and a fact, would read Markdown, by which a name in a
// message could be a link: https://adaptivecards.microsoft.com/?topic=RichTextBlock and ?topic=TextRun
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
