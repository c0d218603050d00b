package llmtap

// Bounds on one body.
const (
	maxBody  = 16 << 20  // beyond it, a body is stubbed
	stubHalf = 256 << 10 // of a stubbed body, its first and its last bytes
	maxError = 4 << 10   // of an error answer when bodies are not captured
)

// A capture keeps the bytes of one body. Its memory is reserved in the hook's queue as it grows.
type capture struct {
	queue *queue
	// limit bounds what is kept, in bytes; 0 keeps nothing. A body beyond maxBody is stubbed, one beyond a smaller limit
	// just ends there.
	limit int

	buf      []byte
	tail     []byte // of a stubbed body: its last bytes, at least stubHalf of them
	reserved int64
	lost     bool // there was no memory for it
}

func (c *capture) cut() bool { return c.tail != nil }

func (c *capture) write(p []byte) {
	if c.limit == 0 || c.lost || len(p) == 0 {
		return
	}
	switch {
	case c.cut():
		c.writeTail(p)
	case len(c.buf)+len(p) <= c.limit:
		c.buf = append(c.buf, p...)
	case c.limit < maxBody:
		c.buf = append(c.buf, p[:c.limit-len(c.buf)]...)
	default:
		c.stub(p)
	}
	c.account()
}

// adopt makes p the body; p is the capture's from now on.
func (c *capture) adopt(p []byte) {
	c.buf = p
	c.account()
}

// stub turns a body that grows beyond maxBody by p into its first and last bytes.
func (c *capture) stub(p []byte) {
	head := make([]byte, 0, stubHalf)
	head = append(head, c.buf[:min(stubHalf, len(c.buf))]...)
	if need := stubHalf - len(head); need > 0 {
		head, p = append(head, p[:min(need, len(p))]...), p[min(need, len(p)):]
	}
	rest := c.buf[min(stubHalf, len(c.buf)):]
	c.buf, c.tail = head, make([]byte, 0, 2*stubHalf)
	c.writeTail(rest)
	c.writeTail(p)
}

func (c *capture) writeTail(p []byte) {
	if len(p) > stubHalf {
		p = p[len(p)-stubHalf:]
	}
	if len(c.tail)+len(p) > 2*stubHalf {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-stubHalf:]...)
	}
	c.tail = append(c.tail, p...)
}

// account makes the reservation equal to the memory in use, and gives everything up where the queue has none.
func (c *capture) account() {
	used := int64(cap(c.buf) + cap(c.tail))
	if used == c.reserved {
		return
	}
	if !c.queue.reserve(used - c.reserved) {
		c.free()
		c.lost = true
		return
	}
	c.reserved = used
}

// take returns the body and hands its reservation over to the caller.
func (c *capture) take() (body []byte, reserved int64) {
	body, reserved = c.buf, c.reserved
	if c.cut() {
		body = append(body, c.tail[max(0, len(c.tail)-stubHalf):]...)
	}
	c.buf, c.tail, c.reserved = nil, nil, 0
	return body, reserved
}

func (c *capture) free() {
	c.queue.release(c.reserved)
	c.buf, c.tail, c.reserved = nil, nil, 0
}
