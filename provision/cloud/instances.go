package cloud

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The tags by which Karpenter knows its instances
// (karpenter-provider-aws pkg/utils/utils.go, GetTags).
const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	clusterTagValue  = "owned"
	nodePoolTag      = "karpenter.sh/nodepool"
	nodeClaimTag     = "karpenter.sh/nodeclaim"
	// nodeGroupTag is that of EKS' managed node groups.
	nodeGroupTag = "eks:nodegroup-name"
)

// filterValues is how many values the filters of one call may have, all together:
// "The maximum number of filter values specified on a single call is 200" (EC2's
// error FilterLimitExceeded).
const filterValues = 200

// Query says which instances are asked for: those of a cluster's NodePools by
// tag, and those of the provider IDs. An instance that is both comes once.
type Query struct {
	// Cluster is the name by which Karpenter tags instances.
	Cluster string
	// Pools are NodePools of that cluster.
	Pools []string
	// AllPools asks for those of every NodePool of that cluster that have not ended.
	AllPools bool
	// ProviderIDs are instances asked for by name, whatever their tags say.
	ProviderIDs []string
}

// Instance is one instance as EC2 has it. A terminated one is listed for about
// an hour and is absent from then on.
type Instance struct {
	ID   string
	Zone string
	// State as EC2 writes it: pending, running, shutting-down, terminated,
	// stopping, stopped.
	State string
	// Pool is the NodePool in its tags.
	Pool string
	// Subnet and SecurityGroups are the IDs of those that it is in; Reservation is the capacity
	// reservation that it was launched to take. One that it takes by chance is not Karpenter's
	// doing (NewInstance in karpenter-provider-aws pkg/providers/instance/types.go, 1.14.1).
	Subnet, Reservation string
	SecurityGroups      []string
	// Reason is why it is in its state, in EC2's words: a code and a message; empty where EC2 has
	// none.
	Reason string
	// Since is when it got into its state, where EC2 says so: to the second, of what was asked for.
	Since time.Time
	// Tags are all that it has, and Launched is when it was; only a Fleet has them.
	Tags     map[string]string
	Launched time.Time
}

// Gone says that EC2 has ended the instance.
func (i Instance) Gone() bool { return i.State == string(ec2types.InstanceStateNameTerminated) }

// ProviderID returns the instance as a NodeClaim writes it.
func (i Instance) ProviderID() string { return "aws:///" + i.Zone + "/" + i.ID }

// Instances returns what EC2 has of a query, in the order of their IDs. One
// DescribeInstances answers it unless an instance has lost its tags or there
// are very many.
//
// With an error the answer is incomplete: the instances beside it are what EC2
// has shown all the same, and the absence of another says nothing. A *PartialError
// says that there are more pages than there was time for: the same question,
// asked again, goes on where this one stopped.
//
// A provider ID that is not EC2's is passed over: no answer says anything of it.
func (c *Client) Instances(ctx context.Context, q Query) ([]Instance, error) {
	instances, err := c.tagged(ctx, q)
	for i := range instances {
		instances[i].Tags, instances[i].Launched = nil, time.Time{}
	}
	return instances, err
}

// tagged is Instances, with their tags.
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
		// What the IDs tell is worth knowing; the tags stay unanswered.
		_ = c.byZone(ctx, ids, found)
	}
	instances := make([]Instance, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		instances = append(instances, found[id])
	}
	return instances, err
}

// byTags asks for the instances of a cluster's NodePools.
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
	return c.list(ctx, found,
		filter("tag:"+clusterTagPrefix+q.Cluster, clusterTagValue),
		filter("tag-key", nodePoolTag, nodeClaimTag),
		filter("instance-state-name", living()...))
}

// living are the states of instances that have not ended.
func living() []string {
	var states []string
	for _, state := range ec2types.InstanceStateName("").Values() {
		if state != ec2types.InstanceStateNameTerminated {
			states = append(states, string(state))
		}
	}
	return states
}

// unanswered are the instances of provider IDs that an answer has not shown, by
// their zone.
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
	if to := i.CapacityReservationSpecification; to != nil && to.CapacityReservationPreference == ec2types.CapacityReservationPreferenceCapacityReservationsOnly && i.SpotInstanceRequestId == nil {
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

// transition is the time in EC2's words on a change of state, as in "User initiated (2026-03-01 12:00:00 GMT)":
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-instances-termination.html
var transition = regexp.MustCompile(`\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)`)

// since is that time; zero where there is none.
func since(words string) time.Time {
	found := transition.FindStringSubmatch(words)
	if found == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.DateTime, found[1])
	if err != nil {
		return time.Time{} // no time of a calendar
	}
	return at
}

// reasonOf puts a code before a message that does not begin with it.
func reasonOf(code, message string) string {
	if message == "" || strings.HasPrefix(message, code) {
		return cmp.Or(message, code)
	}
	return code + ": " + message
}
