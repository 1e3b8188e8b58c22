package notify

import "strings"

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
