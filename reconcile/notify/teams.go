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

type teamsElement struct {
	Type   string      `json:"type"`
	Text   string      `json:"text,omitempty"`
	Weight string      `json:"weight,omitempty"`
	Color  string      `json:"color,omitempty"`
	Wrap   bool        `json:"wrap,omitempty"`
	Facts  []teamsFact `json:"facts,omitempty"`
}

type teamsFact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

func teams(n Notice) any {
	color := "good"
	if n.Trouble() {
		color = "attention"
	}
	body := []teamsElement{
		{Type: "TextBlock", Text: title(n) + ": " + n.Reason, Weight: "bolder", Color: color, Wrap: true},
		{Type: "TextBlock", Text: n.Message, Wrap: true},
	}
	if n.Revision != "" {
		body = append(body, teamsElement{Type: "FactSet", Facts: []teamsFact{{Title: "revision", Value: n.Revision}}})
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{{
		ContentType: "application/vnd.microsoft.card.adaptive",
		Content:     teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4", Body: body},
	}}}
}
