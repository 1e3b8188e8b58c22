package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// Ender ends what is left of a cluster's nodes, for a command whose user asks for that. It is the only one
// here that changes anything in AWS; no pass has one.
type Ender struct{ client *Client }

// NewEnder makes an Ender. It makes no request.
func NewEnder(ctx context.Context, o Options) (*Ender, error) {
	client, err := New(ctx, o)
	return &Ender{client}, err
}

// ClaimError says that something is not of this cluster only, by its tags, and was left as it is.
type ClaimError struct {
	Cluster string
	// Others are the clusters that have a tag on it; none where this cluster has none.
	Others []string
}

func (e *ClaimError) Error() string {
	if len(e.Others) == 0 {
		return "it has no tag of cluster " + e.Cluster
	}
	return "it has a tag of cluster " + strings.Join(e.Others, ", ") + ", too"
}

// Claimed says whether something is of this cluster only; a *ClaimError where it is not.
func (r Resource) Claimed(cluster string) error {
	if ours, others := r.Claim(cluster); !ours || len(others) > 0 {
		return &ClaimError{Cluster: cluster, Others: others}
	}
	return nil
}

// terminatedTogether is how many instances one request ends.
const terminatedTogether = 100

// End terminates instances and deletes everything else, each only where its tags are of this cluster only:
// those that were read with it, and of an instance profile, which is listed without, those that it has now.
// It returns why, by the ID of each that AWS has not taken. What is gone already is no error.
func (e *Ender) End(ctx context.Context, cluster string, resources []Resource) map[string]error {
	failed := map[string]error{}
	var instances []string
	for _, r := range resources {
		var err error
		switch r.Kind {
		case KindInstance:
			if err = r.Claimed(cluster); err == nil {
				instances = append(instances, r.ID)
			}
		case KindInstanceProfile:
			err = e.deleteProfile(ctx, cluster, r.ID)
		default:
			if err = r.Claimed(cluster); err == nil {
				err = e.delete(ctx, r)
			}
		}
		if err != nil {
			failed[r.ID] = err
		}
	}
	for some := range slices.Chunk(instances, terminatedTogether) {
		e.terminate(ctx, some, failed)
	}
	return failed
}

// terminate ends instances together, or one by one where EC2 does not take all of them: one that is
// protected has it refuse the others of its zone.
func (e *Ender) terminate(ctx context.Context, ids []string, failed map[string]error) {
	err := e.call(ctx, "ec2:TerminateInstances", func(ctx context.Context) error {
		_, err := e.client.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	})
	var answer *AnswerError
	if errors.As(err, &answer) && len(ids) > 1 {
		for _, id := range ids {
			e.terminate(ctx, []string{id}, failed)
		}
		return
	}
	for _, id := range ids {
		if err != nil {
			failed[id] = err
		}
	}
}

// delete deletes something of EC2's that is attached to nothing: EC2 refuses the rest.
func (e *Ender) delete(ctx context.Context, r Resource) error {
	id := aws.String(r.ID)
	switch r.Kind {
	case KindVolume:
		return e.call(ctx, "ec2:DeleteVolume", func(ctx context.Context) error {
			_, err := e.client.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: id})
			return err
		})
	case KindNetworkInterface:
		return e.call(ctx, "ec2:DeleteNetworkInterface", func(ctx context.Context) error {
			_, err := e.client.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: id})
			return err
		})
	case KindLaunchTemplate:
		return e.call(ctx, "ec2:DeleteLaunchTemplate", func(ctx context.Context) error {
			_, err := e.client.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: id})
			return err
		})
	case KindInstance, KindInstanceProfile:
	}
	return fmt.Errorf("delete %s %s: this is no way to end it", r.Kind, r.ID)
}

// deleteProfile takes the roles out of an instance profile, and deletes it.
func (e *Ender) deleteProfile(ctx context.Context, cluster, name string) error {
	var profile *iamtypes.InstanceProfile
	err := e.call(ctx, "iam:GetInstanceProfile", func(ctx context.Context) error {
		out, err := e.client.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
		if err == nil {
			profile = out.InstanceProfile
		}
		return err
	})
	if err != nil || profile == nil {
		return err
	}
	r := Resource{Kind: KindInstanceProfile, ID: name, Tags: map[string]string{}}
	for _, tag := range profile.Tags {
		r.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	if err := r.Claimed(cluster); err != nil {
		return err
	}
	if !ofRegion(r.Tags, cluster, e.client.region) {
		return fmt.Errorf("its tags are not those of cluster %s in %s", cluster, e.client.region)
	}
	for i := range profile.Roles {
		err := e.call(ctx, "iam:RemoveRoleFromInstanceProfile", func(ctx context.Context) error {
			_, err := e.client.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String(name), RoleName: profile.Roles[i].RoleName})
			return err
		})
		if err != nil {
			return err
		}
	}
	return e.call(ctx, "iam:DeleteInstanceProfile", func(ctx context.Context) error {
		_, err := e.client.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String(name)})
		return err
	})
}

// call makes one request within its time; that something is gone is no error.
func (e *Ender) call(ctx context.Context, action string, do func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, e.client.timeout)
	defer stop()
	err := do(ctx)
	if err == nil {
		return nil
	}
	err = e.client.named(action, err)
	var answer *AnswerError
	if errors.As(err, &answer) && (answer.Code == "NoSuchEntity" || strings.HasSuffix(answer.Code, ".NotFound")) {
		return nil
	}
	return err
}
