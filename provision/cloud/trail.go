package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	trailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
)

// The calls of EC2 in CloudTrail that a Trail returns.
const (
	TerminateInstances = "TerminateInstances"
	// RunInstances is also what a fleet calls with the credentials of its caller.
	RunInstances = "RunInstances"
)

// trailSpacing is the time between two requests: CloudTrail allows two a second for each account and region.
// https://docs.aws.amazon.com/awscloudtrail/latest/APIReference/API_LookupEvents.html
const trailSpacing = 600 * time.Millisecond

// TrailCall is a successful call of EC2 by CloudTrail.
type TrailCall struct {
	At time.Time
	// Principal is the ARN of the role or user that called.
	Principal string
	// Instances are the IDs that it was about, sorted.
	Instances []string
}

// Trail returns the successful calls of an action of EC2 between two times, by CloudTrail, which knows them some minutes
// later, and for 90 days. It takes at most this many requests, two a second; if there is more, the error is a *PartialError,
// and the result has the newest calls.
func (c *Client) Trail(ctx context.Context, action string, since, until time.Time, requests int) ([]TrailCall, error) {
	var all []TrailCall
	in := &cloudtrail.LookupEventsInput{
		StartTime: aws.Time(since), EndTime: aws.Time(until),
		LookupAttributes: []trailtypes.LookupAttribute{{AttributeKey: trailtypes.LookupAttributeKeyEventName, AttributeValue: aws.String(action)}},
	}
	for n := range requests {
		if n > 0 {
			select {
			case <-time.After(trailSpacing):
			case <-ctx.Done():
				return all, ctx.Err()
			}
		}
		page, err := withTimeout(ctx, c, "cloudtrail:LookupEvents", func(ctx context.Context) (*cloudtrail.LookupEventsOutput, error) {
			return c.trail.LookupEvents(ctx, in)
		})
		if err != nil {
			return all, err
		}
		for _, e := range page.Events {
			call, err := trailCall(aws.ToString(e.CloudTrailEvent))
			if err != nil {
				return all, err
			}
			if call != nil {
				all = append(all, *call)
			}
		}
		if in.NextToken = page.NextToken; aws.ToString(in.NextToken) == "" {
			return all, nil
		}
	}
	return all, &PartialError{Action: "cloudtrail:LookupEvents"}
}

// trailCall parses a record; nil if the call failed:
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html
func trailCall(text string) (*TrailCall, error) {
	type instances struct {
		InstancesSet struct {
			Items []struct {
				InstanceID string `json:"instanceId"`
			} `json:"items"`
		} `json:"instancesSet"`
	}
	var record struct {
		EventTime    time.Time `json:"eventTime"`
		ErrorCode    string    `json:"errorCode"`
		UserIdentity struct {
			ARN            string `json:"arn"`
			InvokedBy      string `json:"invokedBy"`
			SessionContext struct {
				SessionIssuer struct {
					ARN string `json:"arn"`
				} `json:"sessionIssuer"`
			} `json:"sessionContext"`
		} `json:"userIdentity"`
		Request  *instances `json:"requestParameters"`
		Response *instances `json:"responseElements"`
	}
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return nil, fmt.Errorf("read a record of CloudTrail: %w", err)
	}
	if record.ErrorCode != "" {
		return nil, nil
	}
	who := record.UserIdentity
	call := &TrailCall{At: record.EventTime, Principal: who.ARN}
	switch role := who.SessionContext.SessionIssuer.ARN; {
	case role != "":
		call.Principal = role // the ARN of a session has its name, which changes
	case who.ARN == "":
		call.Principal = who.InvokedBy
	}
	for _, of := range []*instances{record.Request, record.Response} {
		if of == nil {
			continue
		}
		for _, item := range of.InstancesSet.Items {
			if item.InstanceID != "" {
				call.Instances = append(call.Instances, item.InstanceID)
			}
		}
	}
	slices.Sort(call.Instances)
	call.Instances = slices.Compact(call.Instances)
	return call, nil
}
