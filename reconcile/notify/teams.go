package notify

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
