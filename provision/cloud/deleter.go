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
)

// Deleter deletes what is left of a cluster's nodes, for a command whose user requests that. Nothing else in this
// package changes anything in AWS; no reconcile uses a Deleter.
type Deleter struct {
	client  *Client
	reached func(point string)
}

// NewDeleter returns a Deleter. It makes no request.
func NewDeleter(ctx context.Context, o Options) (*Deleter, error) {
	client, err := New(ctx, o)
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	return &Deleter{client, o.Reached}, err
}

// terminatedTogether is how many instances one request terminates.
const terminatedTogether = 100

// Delete terminates instances and deletes everything else, each only if its tags name this cluster and no other. It
// checks the tags that were read with the resource or, for an instance profile, which is listed without tags, its
// current ones. It returns the error for each resource that AWS has not accepted, by ID. A resource that no longer
// exists is no error.
func (e *Deleter) Delete(ctx context.Context, cluster string, resources []Resource) map[string]error {
	failed := e.terminateAll(ctx, cluster, resources)
	for _, r := range resources {
		var err error
		switch r.Kind {
		case KindInstance:
			continue
		case KindInstanceProfile:
			err = e.deleteProfile(ctx, cluster, r.ID)
		default:
			if err = r.Claimed(cluster); err == nil {
				err = e.deleteOne(ctx, r)
			}
		}
		if err != nil {
			failed[r.ID] = err
		}
	}
	return failed
}

// terminateAll terminates the instances first: the other resources may belong to them.
func (e *Deleter) terminateAll(ctx context.Context, cluster string, resources []Resource) map[string]error {
	failed := map[string]error{}
	var instances []string
	for _, r := range resources {
		if r.Kind != KindInstance {
			continue
		}
		if err := r.Claimed(cluster); err != nil {
			failed[r.ID] = err
			continue
		}
		instances = append(instances, r.ID)
	}
	for some := range slices.Chunk(instances, terminatedTogether) {
		e.terminate(ctx, some, failed)
	}
	return failed
}

// terminate terminates instances together, or one by one if EC2 does not accept all: because of a protected one, EC2
// refuses the others of its zone, and because of one that is denied or gone, all of them.
func (e *Deleter) terminate(ctx context.Context, ids []string, failed map[string]error) {
	err := e.request(ctx, "ec2:TerminateInstances", func(ctx context.Context) error {
		_, err := e.client.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	})
	var answer *AnswerError
	var denied *DeniedError
	if len(ids) > 1 && (errors.As(err, &answer) || errors.As(err, &denied)) {
		for _, id := range ids {
			e.terminate(ctx, []string{id}, failed)
		}
		return
	}
	if err == nil || isGone(err) {
		return
	}
	for _, id := range ids {
		failed[id] = err
	}
}

// deleteOne deletes an unattached EC2 resource: EC2 refuses to delete an attached one.
func (e *Deleter) deleteOne(ctx context.Context, r Resource) error {
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
	return fmt.Errorf("delete %s %s: not supported for a resource of this kind", r.Kind, r.ID)
}

// deleteProfile removes the roles from an instance profile, and deletes it.
func (e *Deleter) deleteProfile(ctx context.Context, cluster, name string) error {
	bounded, stop := context.WithTimeout(ctx, e.client.timeout)
	defer stop()
	profile, err := e.client.profile(bounded, name)
	if err != nil || profile == nil {
		return err
	}
	r := Resource{Kind: KindInstanceProfile, ID: name, Tags: profileTags(profile)}
	if err := r.Claimed(cluster); err != nil {
		return err
	}
	if !ofRegion(r.Tags, cluster, e.client.region) {
		return &ClaimError{Cluster: cluster, Needs: regionTag + "=" + e.client.region}
	}
	for i := range profile.Roles {
		err := e.call(ctx, "iam:RemoveRoleFromInstanceProfile", func(ctx context.Context) error {
			_, err := e.client.iam.RemoveRoleFromInstanceProfile(ctx,
				&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String(name), RoleName: profile.Roles[i].RoleName})
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

// call makes one request within its timeout. It returns no error if the resource no longer exists.
func (e *Deleter) call(ctx context.Context, action string, do func(ctx context.Context) error) error {
	if err := e.request(ctx, action, do); err != nil && !isGone(err) {
		return err
	}
	return nil
}

func (e *Deleter) request(ctx context.Context, action string, do func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, e.client.timeout)
	defer stop()
	e.reached("before " + action)
	err := do(ctx)
	e.reached("after " + action)
	if err != nil {
		return e.client.named(action, err)
	}
	return nil
}

// isGone reports whether the resource does not exist.
func isGone(err error) bool {
	var answer *AnswerError
	return errors.As(err, &answer) && (answer.Code == "NoSuchEntity" || strings.HasSuffix(answer.Code, ".NotFound"))
}

// Refused reports whether a retry does not help: AWS denies the deletion or protects the resource, or it does not
// belong to the cluster.
func Refused(err error) bool {
	var denied *DeniedError
	var claim *ClaimError
	var answer *AnswerError
	return errors.As(err, &denied) || errors.As(err, &claim) || errors.As(err, &answer) && answer.Code == "OperationNotPermitted"
}
