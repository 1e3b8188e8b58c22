package awssim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

const (
	// trailDelay is the default time until CloudTrail returns a call; AWS's is minutes.
	trailDelay = 5 * time.Second
	// keptRecords are how many calls it remembers, and trailPage how many it returns at once.
	keptRecords, trailPage = 10_000, 50
)

// trailRecord is a call of EC2 in CloudTrail.
type trailRecord struct {
	at        time.Time
	event, id string
	text      string // the record as JSON
}

// trail is CloudTrail's event history: the calls that launch or terminate instances.
type trail struct {
	delay   time.Duration
	records []trailRecord // oldest first
}

// DelayTrail sets how long after a call CloudTrail returns it.
func (s *Simulator) DelayTrail(delay time.Duration) {
	s.locked(func(a *account) { a.trail.delay = delay })
}

// note records a call of a principal. Instances are those that it terminated, or launched.
func (a *account) note(event string, who principal, role *role, instances []string) {
	items := []object{}
	for _, id := range instances {
		items = append(items, object{"instanceId": id})
	}
	identity := object{"type": "IAMUser", "arn": who.ARN, "accountId": a.options.Account}
	if role != nil {
		identity["type"] = "AssumedRole"
		identity["sessionContext"] = object{"sessionIssuer": object{"type": "Role", "arn": role.arn, "userName": role.name}}
	}
	record := object{
		"eventVersion": "1.11", "eventSource": "ec2.amazonaws.com", "eventName": event, "eventTime": a.now.UTC().Format(time.RFC3339),
		"awsRegion": a.options.Region, "userAgent": who.UserAgent, "userIdentity": identity, "eventID": newRequestID(),
	}
	if event == "TerminateInstances" {
		record["requestParameters"] = object{"instancesSet": object{"items": items}}
	} else {
		record["responseElements"] = object{"instancesSet": object{"items": items}}
	}
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // it contains only texts
	}
	a.trail.records = append(a.trail.records, trailRecord{at: a.now, event: event, id: fmt.Sprint(record["eventID"]), text: string(text)})
	if len(a.trail.records) > keptRecords {
		a.trail.records = slices.Delete(a.trail.records, 0, keptRecords/10)
	}
}

// noteCall records a successful call that has launched or terminated instances. A fleet launches them with RunInstances.
func (a *account) noteCall(r *request) {
	who := a.roles[a.credentials[r.principal.AccessKey].role]
	if len(a.launched) > 0 {
		a.note("RunInstances", r.principal, who, a.launched)
	}
	if r.service.name != "ec2" || r.action != "TerminateInstances" || r.form.Get("DryRun") == "true" {
		return
	}
	var ids []string
	for n := 1; r.form.Has(fmt.Sprintf("InstanceId.%d", n)); n++ {
		ids = append(ids, r.form.Get(fmt.Sprintf("InstanceId.%d", n)))
	}
	a.note(r.action, r.principal, who, ids)
}

func (a *account) cloudTrailActions() map[string]action {
	return map[string]action{"LookupEvents": document(a.lookupEvents)}
}

type lookupEventsInput struct {
	// StartTime and EndTime are seconds since 1970.
	StartTime, EndTime float64
	LookupAttributes   []struct{ AttributeKey, AttributeValue string }
	MaxResults         *int64
	NextToken          *string
}

// lookupEvents returns records, newest first.
func (a *account) lookupEvents(_ *request, in *lookupEventsInput) (*object, error) {
	event := ""
	for _, one := range in.LookupAttributes {
		if one.AttributeKey != "EventName" {
			return nil, wire.Errorf("InvalidLookupAttributesException", "the simulator looks up events by EventName only, not by %s", one.AttributeKey)
		}
		event = one.AttributeValue
	}
	var found []trailRecord
	for _, r := range a.trail.records {
		at := float64(r.at.UnixNano()) / float64(time.Second)
		switch {
		case event != "" && r.event != event, in.StartTime > 0 && at < in.StartTime, in.EndTime > 0 && at > in.EndTime:
		case a.now.Sub(r.at) >= a.trail.delay:
			found = append(found, r)
		}
	}
	limit := int64(trailPage)
	if in.MaxResults != nil {
		limit = min(limit, *in.MaxResults)
	}
	// The page's order is that of its key: the newest first.
	newest := func(r trailRecord) string { return fmt.Sprintf("%020d%s", 1<<62-r.at.UnixNano(), r.id) }
	found, next, err := page(found, newest, &limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	events := []object{}
	for _, r := range found {
		events = append(events, object{
			"EventId": r.id, "EventName": r.event, "EventSource": "ec2.amazonaws.com", "EventTime": r.at.Unix(), "CloudTrailEvent": r.text,
		})
	}
	out := &object{"Events": events}
	if next != nil {
		(*out)["NextToken"] = *next
	}
	return out, nil
}
