package report

import (
	"strings"

	"github.com/plumbline-dev/plumbline/redact"
)

// Code is text of others in Markdown, where it is neither a link nor a mention.
func Code(words string) string {
	if words == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(redact.Visible(strings.Join(strings.Fields(words), " ")), "`", "'") + "`"
}
