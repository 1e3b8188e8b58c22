package cloud

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
)

// byIDs asks for instances by a filter: one that EC2 does not know is then absent
// from the answer, and not an error that hides the others. Where EC2 fails calls
// that do not name instances, they are asked for by name.
func (c *Client) byIDs(ctx context.Context, ids map[string][]string, found map[string]Instance) error {
	all := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(ids))...)))
	for some := range slices.Chunk(all, filterValues) {
		err := each(some, func(ids []string) error { return c.list(ctx, found, filter("instance-id", ids...)) })
		if answersByID(err) {
			return c.byZone(ctx, ids, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// byZone asks for instances by name, zone by zone. While a zone is disrupted, EC2
// fails every call that names an instance in it, or no instance at all, and
// answers the others (EC2 API reference, DescribeInstances). It returns the first
// error, and what the other zones have shown.
func (c *Client) byZone(ctx context.Context, ids map[string][]string, found map[string]Instance) error {
	var failed error
	for _, zone := range slices.Sorted(maps.Keys(ids)) {
		for some := range slices.Chunk(ids[zone], filterValues) {
			err := each(some, func(ids []string) error { return c.byName(ctx, ids, found) })
			if err != nil && failed == nil {
				failed = err
			}
		}
	}
	return failed
}

// byName makes one call that names instances, and does not repeat it: a zone that
// fails is not to take the time of the others.
func (c *Client) byName(ctx context.Context, ids []string, found map[string]Instance) error {
	out, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, func(o *ec2.Options) { o.RetryMaxAttempts = 1 })
	if err != nil {
		return c.named("ec2:DescribeInstances", err)
	}
	add(found, out.Reservations)
	return nil
}

// answersByID says whether an error is EC2's own answer to a question that named
// no instance, so that one that names them may fare better.
func answersByID(err error) bool {
	var api smithy.APIError
	var denied *DeniedError
	var credentials *CredentialsError
	var throttled *ThrottledError
	return errors.As(err, &api) && !errors.As(err, &denied) && !errors.As(err, &credentials) && !errors.As(err, &throttled)
}

// instanceID is how EC2 names instances in its messages.
var instanceID = regexp.MustCompile(`i-[0-9a-zA-Z]+`)

// each asks about instances together, and without those that EC2 refuses to hear
// of: an ID that it calls malformed or does not know is that of no instance, and
// must not hide the others.
func each(ids []string, ask func(ids []string) error) error {
	if len(ids) == 0 {
		return nil
	}
	err := ask(ids)
	var answer *AnswerError
	if !errors.As(err, &answer) || !strings.HasPrefix(answer.Code, "InvalidInstanceID.") && !strings.HasPrefix(answer.Code, "InvalidInstanceId.") {
		return err
	}
	named := instanceID.FindAllString(answer.Detail, -1)
	rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(named, id) })
	switch {
	case len(rest) < len(ids):
		return each(rest, ask)
	case len(named) > 0:
		return err // it is about another instance
	case len(ids) == 1:
		return nil
	}
	half := len(ids) / 2 // it does not say which
	if err := each(ids[:half], ask); err != nil {
		return err
	}
	return each(ids[half:], ask)
}
