package peer

import (
	"context"
	"errors"
	"io"
	"net"
)

var errStub = errors.New("peer: not there yet")

type Identity struct {
	Cluster string
	Node    uint64
	Folder  string
}

func Init(dir string) (*Identity, error)                     { return nil, errStub }
func Load(dir string) (*Identity, error)                     { return nil, errStub }
func Accept(dir string, invitation []byte) (*Identity, error) { return nil, errStub }
func (id *Identity) Invite(used ...uint64) ([]byte, error)   { return nil, errStub }

type Port struct{}

func Listen(id *Identity, o Options) (*Port, error) { return nil, errStub }
func (p *Port) Addr() string                        { return "" }
func (p *Port) SetPeers(addrs map[uint64]string)    {}
func (p *Port) Send(to uint64, msg []byte) bool     { return false }
func (p *Port) Urgent(to uint64, msg []byte) bool   { return false }
func (p *Port) SendSnapshot(ctx context.Context, to uint64, meta []byte, r io.Reader) error {
	return errStub
}
func (p *Port) Call(ctx context.Context, addr string, node uint64, method string, in, out any) error {
	return errStub
}
func (p *Port) Dial(ctx context.Context, to uint64, protocol string) (net.Conn, error) {
	return nil, errStub
}
func (p *Port) Protocol(name string) net.Listener { return nil }
func (p *Port) Peers() []PeerState                { return nil }
func (p *Port) Close() error                      { return nil }

type Client struct{}

func NewClient(id *Identity, version string) *Client { return &Client{} }
func (c *Client) Call(ctx context.Context, addr string, node uint64, method string, in, out any) error {
	return errStub
}
