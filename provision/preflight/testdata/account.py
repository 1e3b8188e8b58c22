"""An AWS account in moto, an implementation of AWS that is not this project's.

Starts moto on a free port, creates what a healthy cluster has, and prints one line of JSON with the endpoint and IDs.
Then it reads commands, one a line: a name of a function below that begins with break_ or repair_, without arguments. It
answers each with "done", or with an error.

Usage: account.py CONFIG, a JSON object: cluster, region, policies (documents of Karpenter's role, by name), queuePolicy and
keyPolicy, with ${QUEUE} for the ARN of the queue.
"""

import json
import logging
import os
import sys

os.environ.update(
    MOTO_IAM_LOAD_MANAGED_POLICIES="true", MOTO_ACCOUNT_ID="111122223333", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test",
    AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE="/nonexistent", AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
)

import boto3  # noqa: E402
import moto  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

logging.getLogger("werkzeug").setLevel(logging.ERROR)
config = json.loads(sys.argv[1])
cluster, region = config["cluster"], config["region"]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://%s:%d" % server.get_host_and_port()


def client(service):
    return boto3.client(service, region_name=region, endpoint_url=endpoint)


ec2, iam, sqs, events = client("ec2"), client("iam"), client("sqs"), client("events")
kms, eks, sts = client("kms"), client("eks"), client("sts")
account = sts.get_caller_identity()["Account"]
mine = {"karpenter.sh/discovery": cluster}


def tags(values):
    return [{"Key": k, "Value": v} for k, v in values.items()]


def create_network():
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = []
    for i, zone in enumerate("ab"):
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.%d.0/24" % i, AvailabilityZone=region + zone)["Subnet"]
        subnets.append(subnet["SubnetId"])
    ec2.create_tags(Resources=subnets, Tags=tags(mine))
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
    table = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"][0]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    inside = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[inside])
    ec2.create_tags(Resources=[group], Tags=tags(mine))
    closed = ec2.create_security_group(GroupName="closed", Description="lets nothing in", VpcId=vpc)["GroupId"]
    return vpc, subnets, nat, table, group, closed


def create_cluster():
    created = eks.create_cluster(
        name=cluster, version="1.33", roleArn="arn:aws:iam::%s:role/cluster" % account,
        resourcesVpcConfig={"subnetIds": subnets, "securityGroupIds": [group], "endpointPrivateAccess": True},
    )
    return created["cluster"]["identity"]["oidc"]["issuer"].removeprefix("https://")


def create_roles():
    provider = "arn:aws:iam::%s:oidc-provider/%s" % (account, issuer)
    trust = {"Statement": [{
        "Effect": "Allow", "Principal": {"Federated": provider}, "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {issuer + ":sub": "system:serviceaccount:kube-system:karpenter", issuer + ":aud": "sts.amazonaws.com"}},
    }]}
    name = "KarpenterControllerRole-" + cluster
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust), Tags=tags({"team": "nodes"}))["Role"]["Arn"]
    for policy, document in config["policies"].items():
        arn = iam.create_policy(PolicyName=policy, PolicyDocument=json.dumps(document))["Policy"]["Arn"]
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    nodes = "KarpenterNodeRole-" + cluster
    trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
    iam.create_role(RoleName=nodes, AssumeRolePolicyDocument=json.dumps(trust))
    for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly", "AmazonSSMManagedInstanceCore"):
        iam.attach_role_policy(RoleName=nodes, PolicyArn="arn:aws:iam::aws:policy/" + policy)
    return role


def create_queue():
    key = kms.create_key(Policy=config["keyPolicy"])["KeyMetadata"]["KeyId"]
    url = sqs.create_queue(QueueName=cluster)["QueueUrl"]
    arn = "arn:aws:sqs:%s:%s:%s" % (region, account, cluster)
    policy = config["queuePolicy"].replace("${QUEUE}", arn)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy, "KmsMasterKeyId": key})
    for name, (source, detail) in {
        "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        "health": ("aws.health", "AWS Health Event"),
        "state": ("aws.ec2", "EC2 Instance State-change Notification"),
        "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
        "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    }.items():
        events.put_rule(Name=name, EventPattern=json.dumps({"source": [source], "detail-type": [detail]}))
        events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    return key


vpc, subnets, nat, table, group, closed = create_network()
issuer = create_cluster()
role = create_roles()
key = create_queue()
images = ec2.describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}, {"Name": "virtualization-type", "Values": ["hvm"]}])["Images"]
image = next(i["ImageId"] for i in images if i.get("Platform") != "windows")
made = []


def break_route():
    ec2.delete_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0")


def create_endpoints(*groups):
    for service in ("ec2", "ecr.api", "ecr.dkr", "sts", "eks", "eks-auth", "sqs", "ssm"):
        ec2.create_vpc_endpoint(
            VpcId=vpc, ServiceName="com.amazonaws.%s.%s" % (region, service), VpcEndpointType="Interface",
            PrivateDnsEnabled=True, SubnetIds=subnets, SecurityGroupIds=list(groups),
        )


def break_route_with_endpoints():
    break_route()
    create_endpoints(group)
    ec2.create_vpc_endpoint(VpcId=vpc, ServiceName="com.amazonaws.%s.s3" % region, VpcEndpointType="Gateway", RouteTableIds=[table])


def break_route_with_closed_endpoints():
    break_route()
    create_endpoints(closed)


def repair_route():
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    ids = [e["VpcEndpointId"] for e in ec2.describe_vpc_endpoints()["VpcEndpoints"] if e["State"].lower() != "deleted"]  # moto lists these, too
    if ids:
        ec2.delete_vpc_endpoints(VpcEndpointIds=ids)


def break_group():
    ec2.create_tags(Resources=[group], Tags=tags({"kubernetes.io/cluster/other": "owned"}))


def repair_group():
    ec2.delete_tags(Resources=[group], Tags=[{"Key": "kubernetes.io/cluster/other"}])


def break_key():
    document = {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::%s:root" % account}, "Action": "kms:*", "Resource": "*"}]}
    kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(document))


def repair_key():
    kms.put_key_policy(KeyId=key, PolicyName="default", Policy=config["keyPolicy"])


def break_rule():
    events.disable_rule(Name="spot")


def repair_rule():
    events.enable_rule(Name="spot")


def break_role():
    """Adds a policy of the shape that eksctl writes, under its name."""
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", "Action": ["ec2:TerminateInstances", "iam:PassRole"]}]}
    iam.put_role_policy(
        RoleName="KarpenterControllerRole-" + cluster, PolicyName="eksctl-KarpenterControllerPolicy-" + cluster, PolicyDocument=json.dumps(document),
    )


def repair_role():
    iam.delete_role_policy(RoleName="KarpenterControllerRole-" + cluster, PolicyName="eksctl-KarpenterControllerPolicy-" + cluster)


def break_policies():
    for policy in config["policies"]:
        iam.detach_role_policy(RoleName="KarpenterControllerRole-" + cluster, PolicyArn="arn:aws:iam::%s:policy/%s" % (account, policy))


def repair_policies():
    for policy in config["policies"]:
        iam.attach_role_policy(RoleName="KarpenterControllerRole-" + cluster, PolicyArn="arn:aws:iam::%s:policy/%s" % (account, policy))


def break_nodes():
    iam.detach_role_policy(RoleName="KarpenterNodeRole-" + cluster, PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")


def repair_nodes():
    iam.attach_role_policy(RoleName="KarpenterNodeRole-" + cluster, PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")


owned = {"kubernetes.io/cluster/" + cluster: "owned", "eks:eks-cluster-name": cluster}


def break_volume():
    made.append(ec2.create_volume(
        AvailabilityZone=region + "a", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": tags(owned)}],
    )["VolumeId"])


def repair_volume():
    ec2.delete_volume(VolumeId=made.pop())


def break_template():
    made.append(ec2.create_launch_template(
        LaunchTemplateName="karpenter.k8s.aws/1", LaunchTemplateData={"InstanceType": "m5.large"},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags(dict(owned, **{"karpenter.k8s.aws/ec2nodeclass": "gone"}))}],
    )["LaunchTemplate"]["LaunchTemplateId"])


def repair_template():
    ec2.delete_launch_template(LaunchTemplateId=made.pop())


def break_instance():
    made.append(ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, SubnetId=subnets[0],
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags(dict(owned, **{"karpenter.sh/nodepool": "general"}))}],
    )["Instances"][0]["InstanceId"])


def repair_instance():
    ec2.terminate_instances(InstanceIds=[made.pop()])


print(json.dumps({"endpoint": endpoint, "moto": moto.__version__, "role": role, "image": image, "issuer": issuer}), flush=True)
for line in sys.stdin:
    try:
        globals()[line.strip()]()
        print("done", flush=True)
    except Exception as e:  # the test reports it
        print("%s: %r" % (line.strip(), e), flush=True)
