package awssim

import (
	"encoding/base64"
	"maps"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
)

// Instance is an EC2 instance as observers and tests see it.
type Instance struct {
	ID             string            `json:"id"`
	Type           string            `json:"type"`
	Zone           string            `json:"zone"`
	ZoneID         string            `json:"zoneID"`
	State          string            `json:"state"` // pending, running, stopping, stopped, shutting-down, terminated
	PrivateDNSName string            `json:"privateDNSName"`
	PrivateIP      string            `json:"privateIP"`
	ImageID        string            `json:"imageID"`
	Arch           string            `json:"arch"`         // x86_64 or arm64
	CapacityType   string            `json:"capacityType"` // on-demand or spot
	UserData       string            `json:"userData"`     // decoded
	Tags           map[string]string `json:"tags"`
	LaunchTime     time.Time         `json:"launchTime"`
	VCPU           int               `json:"vcpu"`
	MemoryMiB      int64             `json:"memoryMiB"`
	MaxPods        int               `json:"maxPods"` // by the VPC CNI's addresses
	// Isolated reports whether its VPC had neither a default route nor endpoints: then it reaches no API of AWS.
	Isolated bool `json:"isolated,omitempty"`
}

// The states of an instance.
const (
	statePending      = "pending"
	stateRunning      = "running"
	stateStopping     = "stopping"
	stateStopped      = "stopped"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
)

// The kinds of capacity, as in CreateFleet and in Karpenter's labels.
const (
	onDemand = "on-demand"
	spot     = "spot"
)

// stateCode returns EC2's number for a state.
func stateCode(state string) int64 {
	switch state {
	case stateRunning:
		return 16
	case stateShuttingDown:
		return 32
	case stateTerminated:
		return 48
	case stateStopping:
		return 64
	case stateStopped:
		return 80
	default:
		return 0
	}
}

// instance is the account's record of an instance.
type instance struct {
	resource

	spec          launchSpec
	kind          catalog.InstanceType
	subnet        *subnet
	reservationID string
	spotRequestID string
	interfaces    []*networkInterface // the first is the primary one
	ip, dnsName   string
	launched      time.Time
	state         string
	reason        string    // why it was ended
	interrupted   bool      // EC2 has said that it takes the spot instance back
	due           time.Time // when the state changes by itself; zero: never
	ended         time.Time // when it became terminated
	protected     bool      // against calls that terminate it
	past          []moment  // oldest first, the present last
}

// view returns a copy of i for callers; it shares nothing with the account.
func (i *instance) view(a *account) Instance {
	userData, err := base64.StdEncoding.DecodeString(i.spec.userData)
	if err != nil {
		userData = []byte(i.spec.userData)
	}
	return Instance{
		ID:             i.ID,
		Type:           i.kind.Name,
		Zone:           i.subnet.zone,
		ZoneID:         a.zoneID(i.subnet.zone),
		State:          i.state,
		PrivateDNSName: i.dnsName,
		PrivateIP:      i.ip,
		ImageID:        i.spec.imageID,
		Arch:           i.kind.Arch,
		CapacityType:   i.spec.capacityType,
		UserData:       string(userData),
		Tags:           maps.Clone(i.Tags),
		LaunchTime:     i.launched,
		VCPU:           int(i.kind.VCPU),
		MemoryMiB:      i.kind.MemoryMiB,
		MaxPods:        i.kind.MaxPods(),
		Isolated:       a.vpcs[i.subnet.vpcID] != nil && a.vpcs[i.subnet.vpcID].isolated && a.vpcs[i.subnet.vpcID].noEndpoints,
	}
}
