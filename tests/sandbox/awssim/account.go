package awssim

import (
	crypto "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
)

// account is the entire state. Its methods are the services' actions; they are called with the simulator's mutex held,
// never block, and use the time in now, which the caller sets.
type account struct {
	options Options
	now     time.Time
	emit    func(Event)
	begin   func(*request, func(*operation)) // runs an operation of a caller in the background
	alarms  []time.Time                      // when to advance again, not yet taken by takeAlarms
	applied func(AddonValues)                // called when the values of an add-on change; nil if there is no subscriber

	types       map[string]catalog.InstanceType
	images      map[string]*image
	vpcs        map[string]*vpc
	subnets     map[string]*subnet
	groups      map[string]*securityGroup
	instances   map[string]*instance
	interfaces  map[string]*networkInterface
	volumes     map[string]*volume
	templates   map[string]*launchTemplate
	fleets      map[string]*fleet
	tokens      map[string]idempotent // by action and client token
	roles       map[string]*role
	goneRoles   map[string]*role
	profiles    map[string]*instanceProfile
	clusters    map[string]*cluster
	queues      map[string]*queue
	parameters  map[string]*parameter
	stacks      []*stack // the oldest first, with deleted ones
	scaling     map[string]*scalingGroup
	rules       map[string]*rule
	policies    map[string]*managedPolicy // by ARN
	providers   map[string]*oidcProvider  // by ARN
	credentials map[string]credential     // by access key
	quotas      map[string]float64        // by code, if it is not the default
	keys        map[string]string         // policies of KMS keys, by ID
	// serviceControl is the organization's policy for the account; nil if there is none.
	serviceControl *policy.Document
	trail          trail
	launched       []string // IDs of the instances that the current call has launched
	shortages      []Shortage
	spoiled        string          // the names of images whose instances terminate at launch
	outages        map[string]bool // zones that are disrupted
	answers        Answers
	missed         map[string]bool // caller and instance: the last response omitted it
	random         *rand.Rand
}

// resource is what everything in EC2's and IAM's lists has in common.
type resource struct {
	ID   string            `json:"id"`
	Tags map[string]string `json:"tags"`

	visibleAt time.Time // eventual consistency: describing calls omit it before
}

func (r *resource) tags() map[string]string { return r.Tags }

// visible reports whether describing calls find r yet.
func (r *resource) visible(now time.Time) bool { return !now.Before(r.visibleAt) }

func newAccount(options Options, emit func(Event)) *account {
	a := &account{
		options:     options,
		now:         options.Now(),
		emit:        emit,
		types:       map[string]catalog.InstanceType{},
		images:      map[string]*image{},
		vpcs:        map[string]*vpc{},
		subnets:     map[string]*subnet{},
		groups:      map[string]*securityGroup{},
		instances:   map[string]*instance{},
		interfaces:  map[string]*networkInterface{},
		volumes:     map[string]*volume{},
		templates:   map[string]*launchTemplate{},
		fleets:      map[string]*fleet{},
		tokens:      map[string]idempotent{},
		roles:       map[string]*role{},
		goneRoles:   map[string]*role{},
		profiles:    map[string]*instanceProfile{},
		clusters:    map[string]*cluster{},
		queues:      map[string]*queue{},
		parameters:  map[string]*parameter{},
		scaling:     map[string]*scalingGroup{},
		rules:       map[string]*rule{},
		policies:    map[string]*managedPolicy{},
		providers:   map[string]*oidcProvider{},
		credentials: map[string]credential{},
		quotas:      map[string]float64{},
		keys:        map[string]string{},
		outages:     map[string]bool{},
		trail:       trail{delay: trailDelay},
		answers:     DefaultAnswers(),
		missed:      map[string]bool{},
		random:      rand.New(rand.NewPCG(options.Seed, 0)),
	}
	for _, t := range catalog.InstanceTypes() {
		a.types[t.Name] = t
	}
	for _, i := range catalog.Images() {
		a.publishImage(i)
	}
	a.publishPolicies()
	return a
}

// newResource creates the common part of a resource with a new ID. hide is how long describing calls omit it.
func (a *account) newResource(prefix string, tags map[string]string, hide time.Duration) resource {
	var b [9]byte
	// crypto/rand.Read never fails (according to its documentation it crashes instead).
	_, _ = crypto.Read(b[:])
	r := resource{ID: prefix + hex.EncodeToString(b[:])[:17], Tags: map[string]string{}, visibleAt: a.now.Add(hide)}
	maps.Copy(r.Tags, tags)
	return r
}

// fixedID returns an ID that is the same in every run, for seeded resources.
func fixedID(prefix, name string) string {
	return prefix + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:17]
}

func (a *account) arn(service, region, rest string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", partition(a.options.Region), service, region, a.options.Account, rest)
}

func (a *account) iamARN(rest string) string { return a.arn("iam", "", rest) }

// managedPolicy returns the ARN of a policy that AWS itself manages.
func (a *account) managedPolicy(name string) string {
	return "arn:" + partition(a.options.Region) + ":iam::aws:policy/" + name
}

// zoneID returns the zone's ID, which means the same place in every account.
func (a *account) zoneID(zone string) string {
	for i, z := range a.options.Zones {
		if z == zone {
			return fmt.Sprintf("%s-az%d", regionCode(a.options.Region), i+1)
		}
	}
	return ""
}

func (a *account) zoneIndex(zone string) int {
	for i, z := range a.options.Zones {
		if z == zone {
			return i
		}
	}
	return 0
}
