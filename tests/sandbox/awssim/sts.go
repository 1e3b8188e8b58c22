package awssim

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/sts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) stsActions() map[string]action {
	return map[string]action{
		"GetCallerIdentity":         query(a, a.getCallerIdentity),
		"AssumeRole":                query(a, a.assumeRole),
		"AssumeRoleWithWebIdentity": query(a, a.assumeRoleWithWebIdentity),
	}
}

func (a *account) getCallerIdentity(r *request, _ *sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{
		Account: aws.String(a.options.Account),
		Arn:     aws.String(r.principal.ARN),
		UserId:  aws.String(r.principal.AccessKey),
	}, nil
}

func (a *account) assumeRole(_ *request, in *sts.AssumeRoleInput) (*sts.AssumeRoleOutput, error) {
	credentials, user, err := a.session(in.RoleArn, in.RoleSessionName)
	if err != nil {
		return nil, err
	}
	return &sts.AssumeRoleOutput{Credentials: credentials, AssumedRoleUser: user}, nil
}

func (a *account) assumeRoleWithWebIdentity(_ *request, in *sts.AssumeRoleWithWebIdentityInput) (*sts.AssumeRoleWithWebIdentityOutput, error) {
	if aws.StringValue(in.WebIdentityToken) == "" {
		return nil, wire.Errorf("InvalidIdentityToken", "No token was given.")
	}
	credentials, user, err := a.session(in.RoleArn, in.RoleSessionName)
	if err != nil {
		return nil, err
	}
	return &sts.AssumeRoleWithWebIdentityOutput{Credentials: credentials, AssumedRoleUser: user}, nil
}

// session makes credentials that stand for a role. Trust policies are not looked
// at; they belong to authorize.
func (a *account) session(roleARN, name *string) (*sts.Credentials, *sts.AssumedRoleUser, error) {
	arn := aws.StringValue(roleARN)
	r, ok := a.roles[arn[strings.LastIndex(arn, "/")+1:]]
	if !ok || r.arn != arn {
		return nil, nil, wire.Errorf("AccessDenied", "the role %s does not exist or may not be assumed", arn).WithStatus(http.StatusForbidden)
	}
	key := strings.ToUpper(a.newResource("ASIA", nil, 0).ID)
	session := a.arn("sts", "", fmt.Sprintf("assumed-role/%s/%s", r.name, aws.StringValue(name)))
	a.credentials[key] = session
	credentials := &sts.Credentials{
		AccessKeyId: aws.String(key), SecretAccessKey: aws.String("secret"), SessionToken: aws.String("token"),
		Expiration: aws.Time(a.now.Add(time.Hour)),
	}
	user := &sts.AssumedRoleUser{Arn: aws.String(session), AssumedRoleId: aws.String(r.ID + ":" + aws.StringValue(name))}
	return credentials, user, nil
}
