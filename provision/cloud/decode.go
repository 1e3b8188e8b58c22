package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// encodedMessage finds the encoded part of EC2's message on a denied call.
var encodedMessage = regexp.MustCompile(`Encoded authorization failure message: ([A-Za-z0-9_-]{20,})`)

// Refusal is why AWS has denied a call, from its encoded message.
type Refusal struct {
	// Action and Resource are what was denied, and Principal is to whom.
	Action, Resource, Principal string
	// Explicit reports whether a policy denies it: one of the role, of the resource, or a service control policy.
	Explicit bool
}

// Refused decodes the encoded part of a message; nil if it has none.
func (c *Client) Refused(ctx context.Context, message string) (*Refusal, error) {
	found := encodedMessage.FindStringSubmatch(message)
	if found == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.sts.DecodeAuthorizationMessage(ctx, &sts.DecodeAuthorizationMessageInput{EncodedMessage: aws.String(found[1])})
	if err != nil {
		return nil, c.named("sts:DecodeAuthorizationMessage", err)
	}
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html
	var decoded struct {
		ExplicitDeny bool `json:"explicitDeny"`
		Context      struct {
			Principal        struct{ Arn string } `json:"principal"`
			Action, Resource string
		} `json:"context"`
	}
	if err := json.Unmarshal([]byte(aws.ToString(out.DecodedMessage)), &decoded); err != nil {
		return nil, fmt.Errorf("read a decoded authorization message: %w", err)
	}
	of := decoded.Context
	return &Refusal{Action: of.Action, Resource: of.Resource, Principal: of.Principal.Arn, Explicit: decoded.ExplicitDeny}, nil
}
