package cluster

import (
	"regexp"
	"strings"
)

// differing are the parts of an error that change with each attempt, each with its replacement.
var differing = []struct {
	part *regexp.Regexp
	with string
}{
	// Inserted by the AWS SDK between the operation and the error (github.com/aws/smithy-go transport/http,
	// ResponseError).
	{regexp.MustCompile(`https response error StatusCode: \d+, RequestID: [^,]*, `), ""},
	{regexp.MustCompile(`,? ?\(?(?i:request ?id): ?[0-9A-Za-z-]+\)?`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "…"},
	// The addresses of a connection (net.OpError): the local port changes each time, and a name may have several
	// addresses.
	{regexp.MustCompile(`\b((?:dial|read|write) (?:tcp|udp)[46]?) (?:[0-9.]+|\[[0-9a-f:.%a-z]+\]):\d+(?:->(?:[0-9.]+|\[[0-9a-f:.%a-z]+\]):\d+)?`), "$1"},
	{regexp.MustCompile(`\bretry quota exceeded, \d+ available, \d+ requested`), "retry quota exceeded"},
	{regexp.MustCompile(`\b(after|in|for) (?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ns|µs|us|ms|s|m|h)\b`), "$1 …"},
	{regexp.MustCompile(`\b\d{4}-?\d\d-?\d\dT\d\d:?\d\d:?\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)`), "…"},
	// The session of a role: its name contains the time at which the credentials were requested.
	{regexp.MustCompile(`(:assumed-role/[^/\s]+)/[^\s:,]+`), "$1"},
}

// Stable returns an error that Karpenter reports on one line, without the parts that change with each attempt: request
// IDs, addresses of connections, durations and times. A condition with it changes only if the error does.
func Stable(message string) string {
	message, _, _ = strings.Cut(message, " Encoded authorization failure message")
	for _, d := range differing {
		message = d.part.ReplaceAllString(message, d.with)
	}
	return strings.Join(strings.Fields(message), " ")
}
