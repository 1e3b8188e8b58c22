package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// The names of faults of which one is active at a time.
const (
	answersFault = "EC2 answers"
	zoneFault    = "a zone"
	statusFault  = "EKS status"
)

// loosenAnswers makes EC2's answers to plumbline lag and flap. Those to Karpenter do not: it considers a NodeClaim lost
// if one answer omits its instance.
func (s *soak) loosenAnswers(context.Context) (string, error) {
	if s.faults.stands(answersFault) {
		return "", nil
	}
	d := s.lasting()
	answers := awssim.DefaultAnswers()
	answers.AccessKey = s.sandbox.AWSVariables()["AWS_ACCESS_KEY_ID"]
	answers.Flap = 0.1 + 0.5*s.draw.Float64()
	answers.Lag = awssim.Duration(time.Duration(1+s.draw.IntN(8)) * time.Second)
	answers.EmptyPages, answers.ShortPages = 0.4, 0.4
	if err := s.sandbox.AWS.SetAnswers(answers); err != nil {
		return "", err
	}
	s.letStand(answersFault, d, func(context.Context) error { return s.sandbox.AWS.SetAnswers(awssim.DefaultAnswers()) })
	return fmt.Sprintf("lag by up to %s and miss instances in %.0f%% for %s", time.Duration(answers.Lag), 100*answers.Flap, rounded(d)), nil
}

// breakCalls makes calls fail with codes of AWS's own failures, and plumbline's calls with one about an instance that
// was not in the call.
func (s *soak) breakCalls(context.Context) (string, error) {
	f := awssim.Fault{
		Service: "ec2", Action: s.pick([]string{"*", "Describe*", "DescribeInstances", "TerminateInstances", "CreateFleet"}), Kind: awssim.Fail,
		Code: s.pick([]string{"InternalError", "Unavailable", "ServiceUnavailable"}), Count: 1 + s.draw.IntN(20),
	}
	who := "anyone"
	if s.draw.IntN(2) == 0 {
		who, f.AccessKey = "plumbline", s.sandbox.AWSVariables()["AWS_ACCESS_KEY_ID"]
		f.Code = s.pick([]string{f.Code, "InvalidInstanceID.NotFound"})
	}
	made, err := s.sandbox.AWS.AddFault(f)
	if err != nil {
		return "", err
	}
	d := s.lasting()
	s.letStand("AWS", d, func(context.Context) error {
		s.sandbox.AWS.RemoveFaults(made.ID)
		return nil
	})
	return fmt.Sprintf("%s answers %d of %s's calls %s, within %s", f.Code, f.Count, who, f.Action, rounded(d)), nil
}

// disruptZone disrupts a zone for a while.
func (s *soak) disruptZone(context.Context) (string, error) {
	if s.faults.stands(zoneFault) {
		return "", nil
	}
	d, zone := s.lasting(), s.sandbox.Region+s.pick([]string{"a", "b", "c"})
	if err := s.sandbox.AWS.Outage(zone, true); err != nil {
		return "", err
	}
	s.letStand(zoneFault, d, func(context.Context) error { return s.sandbox.AWS.Outage(zone, false) })
	return fmt.Sprintf("%s for %s", zone, rounded(d)), nil
}

// running returns the running instances, in the order of their IDs.
func (s *soak) running() []string {
	var ids []string
	for _, i := range s.sandbox.AWS.Instances() {
		if i.State == "running" && i.CapacityType == "on-demand" {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// protectInstance enables termination protection for an instance.
func (s *soak) protectInstance(context.Context) (string, error) {
	id := s.pick(s.running())
	if id == "" {
		return "", nil
	}
	if err := s.sandbox.AWS.Protect(id, true); err != nil {
		return "", err
	}
	d := s.lasting()
	s.letStand("protection", d, func(context.Context) error { return s.sandbox.AWS.Protect(id, false) })
	return fmt.Sprintf("%s for %s", id, rounded(d)), nil
}

// stopInstance stops an instance and starts it again, unless it was terminated meanwhile.
func (s *soak) stopInstance(context.Context) (string, error) {
	id := s.pick(s.running())
	if id == "" {
		return "", nil
	}
	if err := s.sandbox.AWS.Stop(id); err != nil {
		return "", err
	}
	delete(s.rests.nodes, id) // Karpenter deletes the NodeClaim of an instance that does not run
	// Stopping takes a second.
	d := time.Second + s.lasting()
	s.letStand("a stopped instance", d, func(context.Context) error {
		for _, i := range s.sandbox.AWS.Instances() {
			if i.ID == id && i.State == "stopped" {
				return s.sandbox.AWS.Start(id)
			}
		}
		return nil
	})
	return fmt.Sprintf("%s for %s", id, rounded(d)), nil
}

// updateCluster makes EKS report that the cluster is being updated.
func (s *soak) updateCluster(context.Context) (string, error) {
	if s.faults.stands(statusFault) {
		return "", nil
	}
	d := s.lasting()
	if err := s.sandbox.AWS.SetClusterStatus(s.sandbox.Cluster, "UPDATING"); err != nil {
		return "", err
	}
	s.letStand(statusFault, d, func(context.Context) error { return s.sandbox.AWS.SetClusterStatus(s.sandbox.Cluster, "ACTIVE") })
	return fmt.Sprintf("is UPDATING for %s", rounded(d)), nil
}
