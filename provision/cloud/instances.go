package cloud

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// The tags with which Karpenter finds its instances (karpenter-provider-aws pkg/utils/utils.go, GetTags).
const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	clusterTagValue  = "owned"
	nodePoolTag      = "karpenter.sh/nodepool"
	nodeClaimTag     = "karpenter.sh/nodeclaim"
	// nodeGroupTag is the tag of EKS managed node groups.
	nodeGroupTag = "eks:nodegroup-name"
)

// filterValues is how many values the filters of one call may have in total: "The maximum number of filter values
// specified on a single call is 200" (EC2's error FilterLimitExceeded).
const filterValues = 200

// Query selects instances: those of a cluster's NodePools by tag, and those of the provider IDs. An instance that
// matches both is returned once.
type Query struct {
	// Cluster is the name with which Karpenter tags instances.
	Cluster string
	// Pools are NodePools of that cluster.
	Pools []string
	// AllPools selects those of every NodePool of that cluster that are not terminated.
	AllPools bool
	// Terminated adds, with AllPools, those that EC2 has terminated and still lists, for about an hour.
	Terminated bool
	// ProviderIDs are instances that are queried by ID, regardless of their tags.
	ProviderIDs []string
}

// Instance is an EC2 instance. EC2 lists a terminated one for about an hour.
type Instance struct {
	ID   string
	Zone string
	// State in EC2's terms: pending, running, shutting-down, terminated, stopping, stopped.
	State string
	// Pool is the NodePool in its tags.
	Pool string
	// Subnet and SecurityGroups are the IDs of its subnet and security groups. Reservation is the capacity reservation
	// that it was launched into. If it uses an open one by chance, that is not Karpenter's choice (NewInstance in
	// karpenter-provider-aws pkg/providers/instance/types.go, 1.14.1).
	Subnet, Reservation string
	SecurityGroups      []string
	// Reason is why it is in its state, in EC2's words: a code and a message; empty if there is none.
	Reason string
	// Since is when it entered its state, in seconds, if EC2 reports it; EC2 does for requested changes.
	Since time.Time
	// Tags are all its tags, and Launched is its launch time; only Fleet sets them.
	Tags     map[string]string
	Launched time.Time
}

// Gone reports whether EC2 has terminated the instance.
func (i Instance) Gone() bool { return i.State == string(ec2types.InstanceStateNameTerminated) }

// ProviderID returns the instance's provider ID in a NodeClaim.
func (i Instance) ProviderID() string { return "aws:///" + i.Zone + "/" + i.ID }

// Instances returns the instances that a query selects, sorted by ID. It takes one DescribeInstances unless an instance
// has lost its tags or there are very many.
//
// If there is an error, the result is incomplete: the returned instances exist, but others may exist, too. A
// *PartialError means that there are more pages than there was time for: the same query, repeated, continues where this
// one stopped.
//
// A provider ID that is not EC2's is skipped: no response can contain it.
func (c *Client) Instances(ctx context.Context, q Query) ([]Instance, error) {
	instances, err := c.tagged(ctx, q)
	for i := range instances {
		instances[i].Tags, instances[i].Launched = nil, time.Time{}
	}
	return instances, err
}

// tagged is like Instances, but keeps the tags.
func (c *Client) tagged(ctx context.Context, q Query) ([]Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]Instance{}
	err := c.byTags(ctx, q, found)
	ids := unanswered(q.ProviderIDs, found)
	switch {
	case err == nil:
		err = c.byIDs(ctx, ids, found)
	case answersByID(err):
		// The result by ID is useful; the query by tags stays unanswered.
		_ = c.byZone(ctx, ids, found)
	}
	instances := make([]Instance, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		instances = append(instances, found[id])
	}
	return instances, err
}

// byTags queries the instances of a cluster's NodePools.
func (c *Client) byTags(ctx context.Context, q Query, found map[string]Instance) error {
	for pools := range slices.Chunk(distinct(q.Pools), filterValues-1) {
		err := c.list(ctx, found,
			filter("tag:"+clusterTagPrefix+q.Cluster, clusterTagValue),
			filter("tag:"+nodePoolTag, pools...))
		if err != nil {
			return err
		}
	}
	if !q.AllPools {
		return nil
	}
	filters := []ec2types.Filter{filter("tag:"+clusterTagPrefix+q.Cluster, clusterTagValue), filter("tag-key", nodePoolTag, nodeClaimTag)}
	if !q.Terminated {
		filters = append(filters, filter("instance-state-name", living()...))
	}
	return c.list(ctx, found, filters...)
}

// living returns the states of instances that are not terminated.
func living() []string {
	var states []string
	for _, state := range ec2types.InstanceStateName("").Values() {
		if state != ec2types.InstanceStateNameTerminated {
			states = append(states, string(state))
		}
	}
	return states
}

// unanswered returns the instances of provider IDs that a response does not contain, by zone.
func unanswered(providerIDs []string, found map[string]Instance) map[string][]string {
	missing := map[string][]string{}
	for _, providerID := range distinct(providerIDs) {
		zone, id, err := ParseProviderID(providerID)
		if err != nil {
			continue
		}
		if _, known := found[id]; !known {
			missing[zone] = append(missing[zone], id)
		}
	}
	return missing
}

func instanceOf(i *ec2types.Instance) Instance {
	instance := Instance{ID: aws.ToString(i.InstanceId)}
	if i.State != nil {
		instance.State = string(i.State.Name)
	}
	if reason := i.StateReason; reason != nil {
		instance.Reason = reasonOf(aws.ToString(reason.Code), aws.ToString(reason.Message))
	}
	instance.Since = since(aws.ToString(i.StateTransitionReason))
	if i.Placement != nil {
		instance.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	instance.Subnet = aws.ToString(i.SubnetId)
	for _, group := range i.SecurityGroups {
		instance.SecurityGroups = append(instance.SecurityGroups, aws.ToString(group.GroupId))
	}
	if to := i.CapacityReservationSpecification; to != nil &&
		to.CapacityReservationPreference == ec2types.CapacityReservationPreferenceCapacityReservationsOnly && i.SpotInstanceRequestId == nil {
		instance.Reservation = aws.ToString(i.CapacityReservationId)
	}
	instance.Tags, instance.Launched = map[string]string{}, aws.ToTime(i.LaunchTime)
	for _, tag := range i.Tags {
		instance.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	instance.Pool = instance.Tags[nodePoolTag]
	return instance
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}

func distinct(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// transition finds the time in EC2's message on a change of state, as in "User initiated (2026-03-01 12:00:00 GMT)":
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-instances-termination.html
var transition = regexp.MustCompile(`\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)`)

// since returns that time; zero if there is none.
func since(words string) time.Time {
	found := transition.FindStringSubmatch(words)
	if found == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.DateTime, found[1])
	if err != nil {
		return time.Time{} // not a valid date
	}
	return at
}

// reasonOf prefixes a message with a code, unless it already starts with it.
func reasonOf(code, message string) string {
	if message == "" || strings.HasPrefix(message, code) {
		return cmp.Or(message, code)
	}
	return code + ": " + message
}

// byIDs queries instances with a filter: one that EC2 does not know is then missing in the response, rather than an
// error that hides the others. If EC2 fails calls that name no instances, they are queried by name.
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

// byZone queries instances by name, zone by zone. While a zone is disrupted, EC2 fails every call that names an
// instance in it, or no instance at all, and answers the others (EC2 API reference, DescribeInstances). It returns the
// first error; found contains the instances of the other zones.
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

// byName makes one call that names instances, without retries: a zone that fails must not use up the time of the
// others.
func (c *Client) byName(ctx context.Context, ids []string, found map[string]Instance) error {
	out, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, func(o *ec2.Options) { o.RetryMaxAttempts = 1 })
	if err != nil {
		return c.named("ec2:DescribeInstances", err)
	}
	add(found, out.Reservations)
	return nil
}

// answersByID reports whether an error is EC2's own response to a query that named no instances, so that one that names
// them may succeed.
func answersByID(err error) bool {
	var api smithy.APIError
	var denied *DeniedError
	var credentials *CredentialsError
	var throttled *ThrottledError
	return errors.As(err, &api) && !errors.As(err, &denied) && !errors.As(err, &credentials) && !errors.As(err, &throttled)
}

// instanceID finds the instances in EC2's messages.
var instanceID = regexp.MustCompile(`i-[0-9a-zA-Z]+`)

// each queries instances together, without those that EC2 rejects: an ID that EC2 calls malformed or does not know
// belongs to no instance, and must not hide the others.
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
		return err // it names an instance that was not queried
	case len(ids) == 1:
		return nil
	}
	half := len(ids) / 2 // it does not say which one
	if err := each(ids[:half], ask); err != nil {
		return err
	}
	return each(ids[half:], ask)
}

const (
	// runningValidFor is how long it is remembered that EC2 has returned an instance, for queries whose result terminates
	// nothing, and absentValidFor how long that it has not.
	runningValidFor, absentValidFor = 5 * time.Minute, time.Minute
	// instancesPerQuery is how many instances count as one request.
	instancesPerQuery = 1000
)

// knownRunning are the instances that EC2 has returned, by provider ID; nil for one that it did not return.
type knownRunning struct {
	mu sync.Mutex
	of map[string]sighting
}

type sighting struct {
	instance *Instance
	until    time.Time
}

// Running returns the instances that EC2 returns, by provider ID, for reports only: nothing may be terminated because
// of the result. Results of the last minutes are reused, and new queries count against the budget of selectors, so that
// Karpenter is not throttled because of them.
func (c *Client) Running(ctx context.Context, q Query) (map[string]Instance, error) {
	now := c.now()
	found, missing := c.knownRunning.find(q.ProviderIDs, now)
	if len(missing) == 0 {
		return found, nil
	}
	if err := c.resolver.Budget().Take(now, "ec2:DescribeInstances", 1+len(missing)/instancesPerQuery); err != nil {
		return found, err
	}
	few := Query{ProviderIDs: missing}
	if len(missing) > filterValues {
		few.Cluster, few.Pools = q.Cluster, q.Pools
	}
	shown, err := c.Instances(ctx, few)
	c.knownRunning.keep(shown, missing, err == nil, now)
	found, _ = c.knownRunning.find(q.ProviderIDs, now)
	return found, err
}

// find returns the instances that are known to exist, and the IDs that must be queried.
func (s *knownRunning) find(ids []string, now time.Time) (found map[string]Instance, missing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = map[string]Instance{}
	for _, id := range distinct(ids) {
		switch known, ok := s.of[id]; {
		case !ok || !now.Before(known.until):
			missing = append(missing, id)
		case known.instance != nil:
			found[id] = *known.instance
		}
	}
	return found, missing
}

// keep remembers the result of a query; whole reports whether it is complete.
func (s *knownRunning) keep(shown []Instance, asked []string, whole bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(_ string, old sighting) bool { return !now.Before(old.until) })
	if s.of == nil {
		s.of = map[string]sighting{}
	}
	if whole {
		for _, id := range asked {
			s.of[id] = sighting{until: now.Add(absentValidFor)}
		}
	}
	for i := range shown {
		s.of[shown[i].ProviderID()] = sighting{instance: &shown[i], until: now.Add(runningValidFor)}
	}
}

// Fleet returns the instances that a query selects, with tags, for reports only: nothing may be terminated because of
// the result. The query counts against the budget of selectors, so that Karpenter is not throttled because of it. The
// result is as complete as that of Instances.
func (c *Client) Fleet(ctx context.Context, q Query) ([]Instance, error) {
	if err := c.resolver.Budget().Take(c.now(), "ec2:DescribeInstances", 1+len(q.ProviderIDs)/instancesPerQuery); err != nil {
		return nil, err
	}
	return c.tagged(ctx, q)
}

// TerminationProtected reports whether EC2 protects an instance from termination (disableApiTermination).
func (c *Client) TerminationProtected(ctx context.Context, providerID string) (bool, error) {
	_, id, err := ParseProviderID(providerID)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	said, err := c.ec2.DescribeInstanceAttribute(ctx,
		&ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: ec2types.InstanceAttributeNameDisableApiTermination})
	if err != nil {
		return false, c.named("ec2:DescribeInstanceAttribute", err)
	}
	return said.DisableApiTermination != nil && aws.ToBool(said.DisableApiTermination.Value), nil
}

// UserData returns the user data of an instance, decoded.
func (c *Client) UserData(ctx context.Context, providerID string) (string, error) {
	_, id, err := ParseProviderID(providerID)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	said, err := c.ec2.DescribeInstanceAttribute(ctx,
		&ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: ec2types.InstanceAttributeNameUserData})
	if err != nil {
		return "", c.named("ec2:DescribeInstanceAttribute", err)
	}
	if said.UserData == nil {
		return "", nil
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(said.UserData.Value))
	if err != nil {
		return "", fmt.Errorf("decode the user data of %s: %w", id, err)
	}
	return string(text), nil
}

// SetTerminationProtection enables or disables EC2's protection of an instance from termination (disableApiTermination).
// EC2 rejects it for spot instances.
func (c *Client) SetTerminationProtection(ctx context.Context, id string, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_, err := c.ec2.ModifyInstanceAttribute(ctx,
		&ec2.ModifyInstanceAttributeInput{InstanceId: &id, DisableApiTermination: &ec2types.AttributeBooleanValue{Value: &on}})
	if err != nil {
		return c.named("ec2:ModifyInstanceAttribute", err)
	}
	return nil
}

// providerIDForm is the format of an instance in a NodeClaim (karpenter-provider-aws pkg/utils/utils.go,
// ParseInstanceID).
var providerIDForm = regexp.MustCompile(`^aws:///([a-z0-9-]+)/(i-[0-9a-zA-Z]+)$`)

// ParseProviderID parses aws:///<zone>/<instance ID>.
func ParseProviderID(providerID string) (zone, instanceID string, err error) {
	parts := providerIDForm.FindStringSubmatch(providerID)
	if parts == nil {
		return "", "", fmt.Errorf("read provider ID %q: want aws:///<zone>/<instance>", providerID)
	}
	return parts[1], parts[2], nil
}

// InstanceID returns the instance ID in a provider ID; a provider ID that is not AWS's is returned unchanged.
func InstanceID(providerID string) string {
	if _, id, err := ParseProviderID(providerID); err == nil {
		return id
	}
	return providerID
}
