use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{Bed, Origin, Reply, read_head, until_gone};

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_what_came_with_the_request() {
    let origin = Origin::start("127.0.0.1", |mut stream, _| async move {
        let mut bytes = [0; 5];
        while stream.read_exact(&mut bytes).await.is_ok() {
            bytes.reverse();
            stream.write_all(&bytes).await.unwrap();
        }
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("CONNECT {}", origin.address), "", b"early").await;
    assert_eq!(Reply::head(&mut stream).await.status(), 200);
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"ylrae");
    stream.write_all(b"12345").await.unwrap();
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"54321");
}

#[tokio::test]
async fn a_web_socket_upgrade_passes_through_a_tunnel() {
    let origin = Origin::start("127.0.0.1", |mut stream, heads| async move {
        let head = read_head(&mut stream).await.unwrap();
        heads.lock().unwrap().push(head);
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nframe";
        stream.write_all(answer.as_bytes()).await.unwrap();
        until_gone(stream).await;
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("CONNECT {}", origin.address), "", b"").await;
    assert_eq!(Reply::head(&mut stream).await.status(), 200);
    let upgrade = "GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    assert_eq!(Reply::head(&mut stream).await.status(), 101);
    let mut frame = [0; 5];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(&frame, b"frame");
    assert_eq!(origin.heads(), [upgrade]);
}

#[tokio::test]
async fn everything_a_server_says_before_it_closes_arrives() {
    const SAID: usize = 4 * 1024 * 1024;
    let origin = Origin::start("127.0.0.1", |mut stream, _| async move {
        stream.write_all(&vec![7; SAID]).await.unwrap();
    })
    .await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("CONNECT {}", origin.address), "", b"").await;
    Reply::head(&mut stream).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.unwrap();
    assert_eq!(said.len(), SAID);
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_tunnel() {
    let origin = Origin::start("127.0.0.1", |stream, _| until_gone(stream)).await;
    let bed = Bed::exempting(&[origin.address]).await;
    let mut stream = bed.connect().await;
    bed.send(&mut stream, &format!("CONNECT {}", origin.address), "", b"").await;
    Reply::head(&mut stream).await;
    origin.sees_open(1).await;
    drop(stream);
    origin.sees_open(0).await;
}
